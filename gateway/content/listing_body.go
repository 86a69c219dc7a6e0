package content

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"

	"allium/protocols/status"
)

// mostMeasured is how long a listing may be whose length has to be known before
// it is sent: it is held in memory.
const mostMeasured = 1 << 20

// measured answers with what write makes and its length, for clients that could
// not tell a cut answer from a whole one otherwise: HTTP/1.0 has no chunks.
func (b *body) measured(write func(io.Writer) error) error {
	var whole measuredBuffer
	if err := write(&whole); err != nil {
		return err
	}
	b.w.Header().Set("Content-Length", strconv.Itoa(whole.Len()))
	_, err := b.Write(whole.Bytes())
	return err
}

// measuredBuffer keeps what is written to it, up to mostMeasured bytes.
type measuredBuffer struct{ bytes.Buffer }

func (m *measuredBuffer) Write(p []byte) (int, error) {
	if m.Len()+len(p) > mostMeasured {
		return 0, status.Errorf(status.BadRequest, "this listing is longer than the %d bytes that HTTP/1.0 gets, as its length has to be known first; ask with HTTP/1.1", mostMeasured)
	}
	return m.Buffer.Write(p)
}

// listingCoding is the content coding of a listing, "" for none. done gives back
// its place.
func (g *Handlers) listingCoding(r *http.Request) (coding string, done func()) {
	if !r.ProtoAtLeast(1, 1) {
		return "", func() {}
	}
	if coding = encodingFor(r); coding == "" || g.encoders.Enter() != nil {
		return "", func() {}
	}
	return coding, g.encoders.Leave
}

// coded answers with what write makes in a content coding. Where it fails the
// encoding has no end.
func (b *body) coded(coding string, write func(io.Writer) error) error {
	if coding == "" {
		return write(b)
	}
	out := bufio.NewWriterSize(b, 16<<10)
	enc, err := encoder(out, coding)
	if err != nil {
		return err
	}
	if err := write(enc); err != nil {
		return err // and the encoder holds nothing but memory
	}
	if err := enc.Close(); err != nil {
		return err
	}
	return out.Flush()
}
