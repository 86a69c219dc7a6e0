package oap

// Builder is the buffer of one frame under construction, with the header's
// room before the payload: a bulk sender reads from disk straight into the
// frame. It carries no capability. Not safe for concurrent use.
//
//	b := oap.NewBuilder(maxFrame)
//	defer b.Release()
//	b.Reset(h)
//	n, err := src.Read(b.Next(b.Room()))
//	b.Commit(n)
//	err = w.WriteBuilder(b)
type Builder struct {
	buf      buffer
	maxFrame int
	header   Header
	n        int // bytes of the frame so far, header included
}

// NewBuilder returns an empty builder for frames up to maxFrame bytes (header
// included, at least HeaderSize, at most MaxFrame).
func NewBuilder(maxFrame uint32) *Builder {
	b := &Builder{maxFrame: int(min(max(maxFrame, HeaderSize), MaxFrame))}
	b.Reset(Header{})
	return b
}

// Reset starts a new frame. Len, Ver and CapLen of h are ignored.
func (b *Builder) Reset(h Header) { b.header, b.n = h, HeaderSize }

// Room is how many bytes of payload still fit.
func (b *Builder) Room() int { return b.maxFrame - b.n }

// Next returns the next n ≤ Room() bytes of the payload to fill; they are part
// of the frame once committed. Slices from before are not valid any more.
func (b *Builder) Next(n int) []byte {
	if end := b.n + n; end > len(b.buf.b) {
		b.buf.grow(end, b.buf.b[:min(b.n, len(b.buf.b))])
	}
	return b.buf.b[b.n : b.n+n : b.n+n]
}

// Commit adds the first n bytes of the last Next to the frame.
func (b *Builder) Commit(n int) { b.n += n }

// Payload is what was committed since Reset.
func (b *Builder) Payload() []byte {
	if b.n == HeaderSize {
		return nil
	}
	return b.buf.b[HeaderSize:b.n]
}

// Release gives the buffer back to the pool. The builder may be used again
// after Reset.
func (b *Builder) Release() {
	b.buf.release()
	b.Reset(Header{})
}
