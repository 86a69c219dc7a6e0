package cloud

import (
	"errors"
	"io"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Bounds of a window, which is what one request reads ahead. Each window of a reader that
// reads in order is twice as large as the one before.
const (
	minWindow = 4 * b3.GroupSize
	maxWindow = 4 << 20
)

// file reads an object of the bucket. The bytes that it returns are unverified. It keeps the last
// window that it read ahead. All files share one budget of bytes for windows (store.read_ahead);
// when the budget is used up, each read is one request. Methods may be called concurrently.
type file struct {
	c    *conn
	key  string
	size int64

	mu         sync.Mutex // lock: metadata
	window     []byte     // bytes read ahead; never modified
	start      int64      // offset of window in the object
	next       int64      // offset of the next read of a reader that reads in order
	nextLength int64      // bytes of the next window
	fromBudget int64      // bytes that this file has taken from the budget
	closed     bool
}

// WriteAt implements meta.File. It always fails: objects in the bucket are complete.
func (f *file) WriteAt([]byte, int64) (int, error) {
	return 0, status.Errorf(status.Internal, "write to %s in the bucket", f.key)
}

// Close implements meta.File.
func (f *file) Close() error {
	f.mu.Lock()
	taken := f.fromBudget
	f.window, f.fromBudget, f.closed = nil, 0, true
	f.mu.Unlock()
	if taken > 0 {
		f.c.meters.Ahead().Release(taken)
	}
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= f.size {
		return 0, io.EOF
	}
	inFile := p[:min(int64(len(p)), f.size-off)]
	for n < len(inFile) && err == nil {
		var m int
		m, err = f.readSome(inFile[n:], off+int64(n))
		n += m
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// readSome reads at least one byte into p, from the window or with one request.
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
		f.dropWindow()
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

// fromWindow copies bytes from the window into p. When the window does not contain off,
// n is 0 and length is how many bytes to request. A length above len(p) is a new window,
// whose bytes fromWindow has taken from the budget.
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
		f.nextLength = minWindow
		return 0, length
	}
	ahead := min(f.nextLength, f.size-off)
	if ahead <= length {
		return 0, length
	}
	// The new window replaces the old one and reuses its share of the budget.
	if ahead > f.fromBudget {
		if f.c.meters.Ahead().TryAcquire(ahead-f.fromBudget) != nil {
			return 0, length
		}
		f.fromBudget = ahead
	}
	f.window = nil
	f.nextLength = min(2*f.nextLength, maxWindow)
	return 0, ahead
}

// dropWindow returns the budget of a window whose request failed.
func (f *file) dropWindow() {
	f.mu.Lock()
	taken := f.fromBudget
	f.window, f.fromBudget, f.nextLength = nil, 0, minWindow
	f.mu.Unlock()
	if taken > 0 {
		f.c.meters.Ahead().Release(taken)
	}
}

// fetch fills p with one request. It returns a defect when the object is missing or ends
// before p is full.
func (f *file) fetch(p []byte, off int64) error {
	if err := f.c.checkJoined(); err != nil {
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
