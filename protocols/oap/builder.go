package oap

// Builder builds one frame in place: the header's space precedes the payload, so a sender of bulk
// data reads from disk straight into the frame. The frame has no capability. A Builder is not safe
// for concurrent use.
//
//	b := oap.NewBuilder(maxFrame)
//	defer b.Release()
//	b.Reset(h)
//	n, err := src.Read(b.Next(b.Available()))
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

// Available returns how many more bytes of payload fit.
func (b *Builder) Available() int { return b.maxFrame - b.n }

// Next returns n ≤ Available() bytes for the caller to fill. Commit adds them to the frame. Slices
// that earlier calls returned are not valid any more.
func (b *Builder) Next(n int) []byte {
	if end := b.n + n; end > len(b.buf.b) {
		b.buf.grow(end, b.buf.b[:min(b.n, len(b.buf.b))])
	}
	return b.buf.b[b.n : b.n+n : b.n+n]
}

// Commit adds the first n bytes that the last Next returned to the frame.
func (b *Builder) Commit(n int) { b.n += n }

// End sets the flag END of the frame.
func (b *Builder) End() { b.header.Flags |= FlagEnd }

// Payload returns the bytes committed since Reset, nil if there are none.
func (b *Builder) Payload() []byte {
	if b.n == HeaderSize {
		return nil
	}
	return b.buf.b[HeaderSize:b.n]
}

// Release returns the buffer to the pool. The builder may be used again after Reset.
func (b *Builder) Release() {
	b.buf.release()
	b.Reset(Header{})
}
