package memory

import (
	"io"
	"sync"
	"sync/atomic"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/ram/arena"
)

// memoryFull returns the no_space error of need more bytes.
func memoryFull(a *arena.Arena, need int) error {
	return meta.NoSpace("the memory backend is full (store.memory_bytes)", a.Available(), arena.BlockSize(need))
}

// ramPair is the two files of a large object in RAM.
type ramPair struct{ data, outboard *ramFile }

// newRAMPair returns an empty object that is open once.
func newRAMPair(a *arena.Arena) ramPair {
	p := ramPair{&ramFile{arena: a}, &ramFile{arena: a}}
	p.open()
	return p
}

func ramPairOf(p meta.Pair) ramPair { return ramPair{p.Data.(*ramFile), p.Outboard.(*ramFile)} }

func (p ramPair) pair() meta.Pair { return meta.Pair{Data: p.data, Outboard: p.outboard} }

// open returns files that keep the bytes until they are closed, even after the store
// has closed. The caller has a reference already, or has just created the pair.
func (p ramPair) open() meta.Pair {
	p.retain()
	p.data.arena.Retain()
	p.outboard.arena.Retain()
	return p.pair()
}

// retain adds a reference to both files.
func (p ramPair) retain() {
	p.data.refs.Add(1)
	p.outboard.refs.Add(1)
}

// release drops a reference to both files. The last one frees the bytes.
func (p ramPair) release() {
	p.data.release()
	p.outboard.release()
}

// ramFile is a sparse file in RAM. It consists of chunks, so that a write at a large
// offset costs no more than its bytes. Every open file has a reference to it and to
// the arena.
type ramFile struct {
	arena *arena.Arena
	refs  atomic.Int32

	mu     sync.RWMutex           // lock: metadata
	chunks map[int64]arena.Extent // by number, each at most chunkSize long; no pointers
}

const chunkSize = b3.GroupSize

// WriteAt implements io.WriterAt. It returns no_space if the arena is full; then it may
// have written a part of p.
func (f *ramFile) WriteAt(p []byte, off int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chunks == nil {
		f.chunks = map[int64]arena.Extent{}
	}
	for n < len(p) {
		i, at := (off+int64(n))/chunkSize, int((off+int64(n))%chunkSize)
		m := min(len(p)-n, chunkSize-at)
		c, err := f.arena.Grow(f.chunks[i], at+m)
		if err != nil {
			return n, memoryFull(f.arena, m)
		}
		f.chunks[i] = c
		n += f.arena.WriteAt(c, p[n:n+m], at)
	}
	return n, nil
}

// ReadAt implements io.ReaderAt. It returns io.EOF at the first byte that was never
// written.
func (f *ramFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for n < len(p) {
		c := f.chunks[(off+int64(n))/chunkSize]
		m := f.arena.ReadAt(c, p[n:], int((off+int64(n))%chunkSize))
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// Close implements io.Closer. It is called once for each open.
func (f *ramFile) Close() error {
	f.release()
	f.arena.Release()
	return nil
}

func (f *ramFile) release() {
	if f.refs.Add(-1) > 0 {
		return
	}
	f.mu.Lock()
	chunks := f.chunks
	f.chunks = nil
	f.mu.Unlock()
	for _, c := range chunks { // may give memory back to the system
		f.arena.Free(c)
	}
}
