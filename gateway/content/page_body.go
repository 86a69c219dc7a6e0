package content

import (
	"bufio"
	"cmp"
	"io"
	"net/http"
	"strconv"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// maxMeasuredPage bounds a page for HTTP/1.0, in bytes. The page is made twice, because its length is sent first. A
// longer one is refused with bad_request.
const maxMeasuredPage = 1 << 20

// pageBuffer is the size in bytes of the parts in which a page is sent. The head of a listing and its first entries are
// one.
const pageBuffer = 24 << 10

// output takes a page.
type output struct {
	*bufio.Writer
	flush func() error // sends what Writer has passed on
}

// send sends what was written so far.
func (o *output) send() error { return cmp.Or(o.Flush(), o.flush()) }

// writePage sends what write writes in a content coding, "" for none. write may be called twice, and writes the same.
func (b *body) writePage(
	r *http.Request, encoders *exchange.Encoders, coding string, write func(to *output) error,
) error {
	buffered := func(to io.Writer, flush func() error) error {
		out := &output{bufio.NewWriterSize(to, pageBuffer), flush}
		if err := write(out); err != nil {
			return err
		}
		return out.Flush()
	}
	if r.ProtoAtLeast(1, 1) {
		return b.writeCompressed(encoders, coding, buffered)
	}
	// HTTP/1.0 has no chunked coding, so only the length tells the client whether the answer is complete.
	var length measure
	nothing := func() error { return nil }
	if err := buffered(&length, nothing); err != nil {
		return err
	}
	b.w.Header().Set("Content-Length", strconv.Itoa(int(length)))
	return buffered(b, nothing)
}

// measure counts up to maxMeasuredPage bytes.
type measure int

func (m *measure) Write(p []byte) (int, error) {
	if *m += measure(len(p)); *m > maxMeasuredPage {
		return 0, status.Errorf(status.BadRequest, "cannot send the page with HTTP/1.0: "+
			"it is longer than %d bytes. Use HTTP/1.1", maxMeasuredPage)
	}
	return len(p), nil
}

// writeCompressed sends the output of write in a content coding, "" for none. If write
// fails, the encoding stays incomplete, so that the client notices. flush sends what was written so far.
func (b *body) writeCompressed(
	encoders *exchange.Encoders, coding string, write func(to io.Writer, flush func() error) error,
) error {
	if coding == "" {
		return write(b, b.w.Flush)
	}
	out := bufio.NewWriterSize(b, 16<<10)
	enc, err := encoders.New(b.ctx, out, coding)
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
