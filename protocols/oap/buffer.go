package oap

import "sync"

// Buffers come in three sizes. A reader or writer owns a small one for its
// whole life and borrows the others while a frame needs them, so that an idle
// stream costs smallSize however large its frames were.
const (
	smallSize  = 4 << 10
	mediumSize = 72 << 10 // one 64 KiB group with its header, capability and parents
	largeSize  = MaxFrame
)

var (
	mediumPool = sync.Pool{New: func() any { return new([mediumSize]byte) }}
	largePool  = sync.Pool{New: func() any { return new([largeSize]byte) }}
)

// buffer is a byte buffer of one of the three sizes.
type buffer struct {
	b     []byte // what is in use now
	small []byte // made when first needed, then kept
}

// grow replaces the buffer with one of at least n ≤ largeSize bytes and copies
// keep to its start. n must exceed the present size.
func (b *buffer) grow(n int, keep []byte) {
	var next []byte
	switch {
	case n <= smallSize:
		if b.small == nil {
			b.small = make([]byte, smallSize)
		}
		next = b.small
	case n <= mediumSize:
		next = mediumPool.Get().(*[mediumSize]byte)[:]
	default:
		next = largePool.Get().(*[largeSize]byte)[:]
	}
	copy(next, keep)
	b.release()
	b.b = next
}

// release gives a borrowed buffer back. What it held is gone.
func (b *buffer) release() {
	switch len(b.b) {
	case mediumSize:
		mediumPool.Put((*[mediumSize]byte)(b.b))
	case largeSize:
		largePool.Put((*[largeSize]byte)(b.b))
	}
	b.b = nil
}
