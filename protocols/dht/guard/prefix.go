package guard

import (
	"errors"
	"io"
	"sync"

	"github.com/multiformats/go-varint"

	"allium/protocols/status"
)

// prefix reads the lengths before messages, a byte at a time: what follows a
// length stays in the transport, under its flow control, until it is admitted.
type prefix struct {
	src     io.Reader
	started func() error // called after the first byte of a length

	got int // bytes of this length
	b   [1]byte
}

// read returns the next length. It is io.EOF before a length,
// io.ErrUnexpectedEOF within one, status.FrameOversize above limit and
// status.BadFrame when it is not a varint of at most nine bytes in its shortest
// form.
func (p *prefix) read(limit int) (int, error) {
	p.got = 0
	n, err := varint.ReadUvarint(p)
	switch {
	case errors.Is(err, varint.ErrOverflow), errors.Is(err, varint.ErrNotMinimal):
		return 0, status.Errorf(status.BadFrame, "dht: the length of a message: %w", err)
	case err != nil:
		return 0, err
	case n > uint64(limit):
		return 0, status.Errorf(status.FrameOversize, "dht: a message of %d bytes, more than %d", n, limit)
	}
	return int(n), nil
}

// ReadByte implements io.ByteReader.
func (p *prefix) ReadByte() (byte, error) {
	if _, err := io.ReadFull(p.src, p.b[:]); err != nil {
		return 0, err
	}
	p.got++
	if p.got == 1 {
		if err := p.started(); err != nil {
			return 0, err
		}
	}
	return p.b[0], nil
}

// small holds *[smallMessage]byte.
var small = sync.Pool{New: func() any { return new([smallMessage]byte) }}

// buffer lends the bytes of one message at a time.
type buffer struct{ lent *[smallMessage]byte }

// get returns n bytes, good until free.
func (b *buffer) get(n int) []byte {
	if n > smallMessage {
		return make([]byte, n)
	}
	b.lent = small.Get().(*[smallMessage]byte)
	return b.lent[:n]
}

// free takes back what get lent.
func (b *buffer) free() {
	if b.lent != nil {
		small.Put(b.lent)
		b.lent = nil
	}
}
