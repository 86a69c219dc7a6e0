package content

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strconv"

	"allium/protocols/status"
)

// maxBufferedListing bounds a listing for HTTP/1.0, in bytes. The listing is held in memory,
// because its length is sent first. A longer one is refused with bad_request.
const maxBufferedListing = 1 << 20

// writeWithLength buffers the output of write and sends it with its length. HTTP/1.0 has no
// chunked coding, so only the length tells the client whether the answer is complete.
func (b *body) writeWithLength(write func(to io.Writer, flush func() error) error) error {
	var whole cappedBuffer
	if err := write(&whole, func() error { return nil }); err != nil {
		return err
	}
	b.w.Header().Set("Content-Length", strconv.Itoa(whole.Len()))
	_, err := b.Write(whole.Bytes())
	return err
}

// cappedBuffer collects up to maxBufferedListing bytes.
type cappedBuffer struct{ bytes.Buffer }

func (m *cappedBuffer) Write(p []byte) (int, error) {
	if m.Len()+len(p) > maxBufferedListing {
		return 0, status.Errorf(status.BadRequest, "cannot send the listing with HTTP/1.0: "+
			"it is longer than %d bytes. Use HTTP/1.1", maxBufferedListing)
	}
	return m.Buffer.Write(p)
}

// acquireEncoder returns the content coding for a listing, or "" for none. It chooses none
// if all encoders are in use. The caller calls done after the listing.
func (g *Handlers) acquireEncoder(r *http.Request) (coding string, done func()) {
	if !r.ProtoAtLeast(1, 1) {
		return "", func() {}
	}
	if coding = preferredCoding(r); coding == "" || g.encoders.Enter() != nil {
		return "", func() {}
	}
	return coding, g.encoders.Leave
}

// writeCompressed sends the output of write in a content coding, "" for none. If write
// fails, the encoding stays incomplete, so that the client notices. flush sends what was written so far.
func (b *body) writeCompressed(coding string, write func(to io.Writer, flush func() error) error) error {
	if coding == "" {
		return write(b, b.w.Flush)
	}
	out := bufio.NewWriterSize(b, 16<<10)
	enc, err := newEncoder(out, coding)
	if err != nil {
		return err
	}
	flush := func() error { return cmp.Or(enc.Flush(), out.Flush(), b.w.Flush()) }
	if err := write(enc, flush); err != nil {
		return err // the encoder holds only memory, so it is not closed
	}
	if err := enc.Close(); err != nil {
		return err
	}
	return out.Flush()
}
