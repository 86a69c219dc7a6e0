package store

import (
	"io"
	"sync"
	"sync/atomic"

	"allium/protocols/b3"
)

// ram is the hard cap of the memory backend.
type ram struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes, or returns no_space.
func (r *ram) take(n int64) error {
	if used := r.used.Add(n); used > r.limit {
		r.used.Add(-n)
		return noSpace("the memory backend is full (store.memory_bytes)", max(0, r.limit-used+n), n)
	}
	return nil
}

func (r *ram) give(n int64) { r.used.Add(-n) }

// ramFile is a sparse file in RAM, in chunks, so that it grows without copying
// and a write far out costs no more than its bytes.
type ramFile struct {
	ram *ram

	mu     sync.RWMutex
	chunks map[int64][]byte // each up to chunkSize long
	held   int64            // bytes reserved
}

const chunkSize = b3.GroupSize

// WriteAt implements io.WriterAt; it fails with no_space and then may have
// written a part.
func (f *ramFile) WriteAt(p []byte, off int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chunks == nil {
		f.chunks = map[int64][]byte{}
	}
	for n < len(p) {
		i, at := (off+int64(n))/chunkSize, int((off+int64(n))%chunkSize)
		m := min(len(p)-n, chunkSize-at)
		if err := f.grow(i, at+m); err != nil {
			return n, err
		}
		n += copy(f.chunks[i][at:], p[n:n+m])
	}
	return n, nil
}

// grow makes chunk i at least n bytes long. mu is held.
func (f *ramFile) grow(i int64, n int) error {
	c := f.chunks[i]
	if n <= len(c) {
		return nil
	}
	if n > cap(c) {
		room := min(max(n, 2*cap(c)), chunkSize)
		if err := f.ram.take(int64(room - cap(c))); err != nil {
			return err
		}
		f.held += int64(room - cap(c))
		bigger := make([]byte, len(c), room)
		copy(bigger, c)
		c = bigger
	}
	f.chunks[i] = c[:n]
	return nil
}

// ReadAt implements io.ReaderAt. It ends at the first byte that was never
// written.
func (f *ramFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for n < len(p) {
		c := f.chunks[(off+int64(n))/chunkSize]
		at := int((off + int64(n)) % chunkSize)
		if at >= len(c) {
			return n, io.EOF
		}
		n += copy(p[n:], c[at:])
	}
	return n, nil
}

// Close implements io.Closer; the bytes stay until they are discarded.
func (f *ramFile) Close() error { return nil }

// size is how many bytes f holds of the cap.
func (f *ramFile) size() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.held
}
