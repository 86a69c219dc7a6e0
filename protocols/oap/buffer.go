package oap

import "sync"

// The sizes of buffers, in bytes. All are pooled. A stream that waits for a frame holds a tiny buffer,
// however large its frames were before. A request and most responses fit into it. A larger buffer is
// held only while a frame fills it.
const (
	tinySize   = 512
	smallSize  = 4 << 10
	mediumSize = 72 << 10 // one 64 KiB group with its header, capability and parents
	bigSize    = 288 << 10
	largeSize  = MaxFrame
)

// sizeFor returns the smallest buffer size for n ≤ largeSize bytes.
func sizeFor(n int) int {
	for _, size := range [...]int{tinySize, smallSize, mediumSize, bigSize} {
		if n <= size {
			return size
		}
	}
	return largeSize
}

var (
	tinyPool   = sync.Pool{New: func() any { return new([tinySize]byte) }}
	smallPool  = sync.Pool{New: func() any { return new([smallSize]byte) }}
	mediumPool = sync.Pool{New: func() any { return new([mediumSize]byte) }}
	bigPool    = sync.Pool{New: func() any { return new([bigSize]byte) }}
	largePool  = sync.Pool{New: func() any { return new([largeSize]byte) }}
)

// buffer is a pooled byte buffer; the zero value is empty.
type buffer struct{ b []byte }

// grow replaces the buffer with one of at least n ≤ largeSize bytes and copies prefix to its start.
// n must be larger than the present size.
func (b *buffer) grow(n int, prefix []byte) {
	var next []byte
	switch sizeFor(n) {
	case tinySize:
		next = tinyPool.Get().(*[tinySize]byte)[:]
	case smallSize:
		next = smallPool.Get().(*[smallSize]byte)[:]
	case mediumSize:
		next = mediumPool.Get().(*[mediumSize]byte)[:]
	case bigSize:
		next = bigPool.Get().(*[bigSize]byte)[:]
	default:
		next = largePool.Get().(*[largeSize]byte)[:]
	}
	copy(next, prefix)
	b.release()
	b.b = next
}

// release returns the bytes to their pool and empties the buffer. Slices of it are not valid any more.
func (b *buffer) release() {
	switch len(b.b) {
	case tinySize:
		tinyPool.Put((*[tinySize]byte)(b.b))
	case smallSize:
		smallPool.Put((*[smallSize]byte)(b.b))
	case mediumSize:
		mediumPool.Put((*[mediumSize]byte)(b.b))
	case bigSize:
		bigPool.Put((*[bigSize]byte)(b.b))
	case largeSize:
		largePool.Put((*[largeSize]byte)(b.b))
	}
	b.b = nil
}
