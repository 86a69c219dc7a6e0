package cloud

import (
	"errors"
	"io"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Windows of reading: the bytes of one request. A reader that goes on where it
// stopped gets the double each time.
const (
	minWindow = 4 * b3.GroupSize
	maxWindow = 4 << 20
)

// file reads an object of the bucket. What it returns is not verified yet.
// It keeps the last window that was read ahead, within the budget that all
// share; without budget each read is one request of its own.
type file struct {
	c    *conn
	key  string
	size int64

	mu     sync.Mutex
	window []byte // immutable once it is here
	start  int64  // of window
	next   int64  // where a reader in order goes on
	step   int64  // size of the next window
	held   int64  // of the budget
	closed bool
}

// WriteAt implements meta.File; objects in the bucket are complete.
func (f *file) WriteAt([]byte, int64) (int, error) {
	return 0, status.Errorf(status.Internal, "write to %s in the bucket", f.key)
}

// Close implements meta.File.
func (f *file) Close() error {
	f.mu.Lock()
	held := f.held
	f.window, f.held, f.closed = nil, 0, true
	f.mu.Unlock()
	if held > 0 {
		f.c.meters.Ahead().Release(held)
	}
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= f.size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), f.size-off)]
	for n < len(want) && err == nil {
		var m int
		m, err = f.readSome(want[n:], off+int64(n))
		n += m
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// readSome reads at least a byte, from the window or with one request.
func (f *file) readSome(p []byte, off int64) (int, error) {
	n, length := f.fromWindow(p, off)
	if n > 0 {
		return n, nil
	}
	if length <= int64(len(p)) {
		return len(p), f.fetch(p, off)
	}
	window := make([]byte, length)
	if err := f.fetch(window, off); err != nil {
		f.giveBack()
		return 0, err
	}
	n = copy(p, window)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.window, f.start, f.next = window, off, off+int64(n)
	}
	return n, nil
}

// fromWindow copies what the window has of p. When it has nothing, it says how
// many bytes to ask for, and takes them from the budget where that is more than
// p.
func (f *file) fromWindow(p []byte, off int64) (n int, length int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := off - f.start; at >= 0 && at < int64(len(f.window)) {
		n = copy(p, f.window[at:])
		f.next = off + int64(n)
		return n, 0
	}
	inOrder := off == f.next && off > 0
	f.next = off + int64(len(p))
	length = int64(len(p))
	if !inOrder || f.closed {
		f.step = minWindow
		return 0, length
	}
	want := min(f.step, f.size-off)
	if want <= length {
		return 0, length
	}
	// The old window is behind the reader: its bytes are budget for the new one.
	if want > f.held {
		if f.c.meters.Ahead().TryAcquire(want-f.held) != nil {
			return 0, length
		}
		f.held = want
	}
	f.window = nil
	f.step = min(2*f.step, maxWindow)
	return 0, want
}

// giveBack returns the budget of a window that could not be read.
func (f *file) giveBack() {
	f.mu.Lock()
	held := f.held
	f.window, f.held, f.step = nil, 0, minWindow
	f.mu.Unlock()
	if held > 0 {
		f.c.meters.Ahead().Release(held)
	}
}

// fetch fills p. An object that is not there, or ends early, is damage.
func (f *file) fetch(p []byte, off int64) error {
	if err := f.c.here(); err != nil {
		return err
	}
	err := f.c.bucket.ReadAt(f.c.ctx, f.key, p, off)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return meta.Defect("short")
	case status.Of(err) == status.NotFound:
		return meta.Defect("missing")
	}
	return err
}
