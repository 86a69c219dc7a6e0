package allowance

import (
	"errors"
	"io"
	"sync"

	"github.com/multiformats/go-varint"

	"allium/protocols/status"
)

// lengthReader reads the length prefixes of messages, one byte at a time. The bytes of a
// message stay in the transport, under its flow control, until the message is admitted.
type lengthReader struct {
	src     io.Reader
	started func() error // called after the first byte of a length

	bytesRead int // of the current length
	b         [1]byte
}

// read returns the next length. It returns io.EOF if the stream ends before a length,
// io.ErrUnexpectedEOF within one, status.FrameOversize above limit, and status.BadFrame if
// the length is not a varint of at most nine bytes in its shortest form.
func (p *lengthReader) read(limit int) (int, error) {
	p.bytesRead = 0
	n, err := varint.ReadUvarint(p)
	switch {
	case errors.Is(err, varint.ErrOverflow), errors.Is(err, varint.ErrNotMinimal):
		return 0, status.Errorf(status.BadFrame, "read the length of a message: %w", err)
	case err != nil:
		return 0, err
	case n > uint64(limit):
		return 0, status.Errorf(status.FrameOversize, "message has %d bytes, more than %d", n, limit)
	}
	return int(n), nil
}

// ReadByte implements io.ByteReader.
func (p *lengthReader) ReadByte() (byte, error) {
	if _, err := io.ReadFull(p.src, p.b[:]); err != nil {
		return 0, err
	}
	p.bytesRead++
	if p.bytesRead == 1 {
		if err := p.started(); err != nil {
			return 0, err
		}
	}
	return p.b[0], nil
}

// smallBuffers holds *[smallMessage]byte.
var smallBuffers = sync.Pool{New: func() any { return new([smallMessage]byte) }}

// buffer holds the bytes of one message at a time.
type buffer struct{ pooled *[smallMessage]byte }

// get returns n bytes, which are valid until free. Small ones come from the pool.
func (b *buffer) get(n int) []byte {
	if n > smallMessage {
		return make([]byte, n)
	}
	b.pooled = smallBuffers.Get().(*[smallMessage]byte)
	return b.pooled[:n]
}

// free returns a pooled buffer.
func (b *buffer) free() {
	if b.pooled != nil {
		smallBuffers.Put(b.pooled)
		b.pooled = nil
	}
}
