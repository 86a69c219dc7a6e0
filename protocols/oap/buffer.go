package oap

import "sync"

// Buffers come in five sizes, all pooled. A stream that waits for a frame holds
// a tiny one, whatever its frames were before, which a request and most answers
// fit into; the larger ones are borrowed while a frame fills them.
const (
	tinySize   = 512
	smallSize  = 4 << 10
	mediumSize = 72 << 10 // one 64 KiB group with its header, capability and parents
	bigSize    = 288 << 10
	largeSize  = MaxFrame
)

// sizeFor is the least size of a buffer for n ≤ largeSize bytes.
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

// grow replaces the buffer with one of at least n ≤ largeSize bytes, larger
// than the present one, and copies keep to its start.
func (b *buffer) grow(n int, keep []byte) {
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
	copy(next, keep)
	b.release()
	b.b = next
}

// release empties the buffer. What it held may be overwritten at any time.
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
