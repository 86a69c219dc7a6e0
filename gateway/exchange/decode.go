package exchange

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"allium/internal/cores"
	"allium/internal/limits"
	"allium/protocols/status"
)

// ratioFloor is the output in bytes above which a decoder checks the ratio. Ordinary text
// shrinks to a twelfth, and so little output does no harm.
const ratioFloor = 64 << 10

// decodePiece is the most output in bytes for which a decoder has a core at a time: 0.2 to 0.5 ms.
const decodePiece = 64 << 10

// zstdWindow is the largest zstd window in bytes, and so the memory of one decoder.
const zstdWindow = 8 << 20

// decoder decodes a request's body that is gzip or zstd. It counts the input and the output
// over all members and frames together. It returns decompress_cap if the output exceeds max,
// or exceeds ratio times the input and ratioFloor. It takes a core for each of its calls, and gives it back while it
// reads the input, which may wait for the client.
//
// It belongs to one request and is read by one goroutine.
type decoder struct {
	in           countingReader
	buffered     *bufio.Reader // of in; its buffer holds input that is not decoded yet
	out          io.Reader     // nil before the first Read
	produced     int64         // bytes of output
	ratio        int64
	max          int64 // −1: no limit
	name         string
	closeDecoder func()
}

// EncodingOf returns the Content-Encoding of a request's body: "gzip", "zstd", or "" for none.
// It returns unsupported for any other one, and for several.
func EncodingOf(h http.Header) (string, error) {
	var all []string
	for _, v := range h.Values("Content-Encoding") {
		for e := range strings.SplitSeq(v, ",") {
			if e = strings.ToLower(strings.TrimSpace(e)); e != "" {
				all = append(all, e)
			}
		}
	}
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", status.Errorf(status.Unsupported,
			"cannot decode the body: it has %d content codings. Send it plain, or with gzip or zstd alone", len(all))
	}
	switch all[0] {
	case "identity":
		return "", nil
	case "gzip", "x-gzip": // equivalent, RFC 9110 §8.4.1.3
		return "gzip", nil
	case "zstd":
		return "zstd", nil
	}
	return "", status.Errorf(status.Unsupported,
		"cannot decode the body: Content-Encoding %q is not supported. Send it plain, or with gzip or zstd",
		Clip(all[0]))
}

// Ratio returns how many times its size a compressed body may decode to.
func (l *Bodies) Ratio() int64 { return l.cfg.DecompressRatio }

// Decode returns a reader of the decoded r, which from sends, limited to most bytes (−1: no limit). It
// returns busy if the limit of decoders is reached, or the client's share of it. The caller calls close
// once after the last read.
func (l *Bodies) Decode(from Origin, h http.Header, r io.Reader, most int64) (_ io.Reader, close func(), err error) {
	name, err := EncodingOf(h)
	if err != nil {
		return nil, nil, err
	}
	if name == "" {
		if most < 0 {
			return r, func() {}, nil
		}
		return &cappedReader{r: r, left: most, name: "the body", max: most}, func() {}, nil
	}
	if err := l.decoders.Enter(from.Group); err != nil {
		if full := (*status.Error)(nil); errors.As(err, &full) {
			full.Outcome = status.Busy // status.Quota is for peers
		}
		return nil, nil, err
	}
	d := &decoder{in: countingReader{r: r, pool: l.Cores}, name: name, ratio: l.cfg.DecompressRatio,
		max: most, closeDecoder: func() {}}
	return d, func() { d.closeDecoder(); l.decoders.Leave(from.Group) }, nil
}

// Read returns decoded bytes. The first Read creates the decoder, so that a handler can refuse
// the request before anything is read.
func (d *decoder) Read(p []byte) (int, error) {
	if d.out == nil {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	d.in.pool.Enter(cores.Foreground)
	n, err := d.out.Read(p[:min(len(p), decodePiece)])
	d.in.pool.Leave(cores.Foreground)
	d.produced += int64(n)
	if d.produced > ratioFloor && d.produced > d.ratio*(d.in.n-int64(d.buffered.Buffered())) {
		return 0, status.Errorf(status.DecompressCap,
			"cannot decode the body: it decodes to more than %d times its size. Send it plain", d.ratio)
	}
	if d.max >= 0 && d.produced > d.max {
		return 0, status.Errorf(status.DecompressCap,
			"cannot decode the body: it decodes to more than %s, the limit", limits.Bytes(d.max).Human())
	}
	switch {
	case err == io.EOF && d.in.n == 0:
		return 0, d.decodeError(err) // not even an empty frame
	case err != nil && err != io.EOF:
		return 0, d.decodeError(err)
	}
	return n, err
}

func (d *decoder) begin() error {
	d.buffered = bufio.NewReaderSize(&d.in, 32<<10)
	d.in.pool.Enter(cores.Foreground)
	defer d.in.pool.Leave(cores.Foreground)
	if d.name == "gzip" {
		z, err := gzip.NewReader(d.buffered)
		if err != nil {
			return d.decodeError(err)
		}
		d.out = z
		return nil
	}
	z, err := zstd.NewReader(d.buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(zstdWindow))
	if err != nil {
		return d.decodeError(err)
	}
	d.out, d.closeDecoder = z, z.Close
	return nil
}

// decodeError returns the error of the body's reader if it failed. Any other error means that
// the encoding is malformed.
func (d *decoder) decodeError(err error) error {
	switch {
	case d.in.err != nil:
		return d.in.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return status.Errorf(status.Unsupported,
			"cannot decode the body: it needs a zstd window of more than %s. Compress it without --long or --ultra",
			limits.Bytes(zstdWindow).Human())
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return status.Errorf(status.BadRequest,
		"cannot decode the body as %s: it is cut short or malformed (%w)", d.name, err)
}

// countingReader counts the bytes read through it and remembers the error that ended them. Its reader has a core of the
// pool, but for the time of a read.
type countingReader struct {
	r    io.Reader
	pool *cores.Pool
	n    int64
	err  error // never io.EOF
}

func (c *countingReader) Read(p []byte) (int, error) {
	c.pool.Leave(cores.Foreground)
	n, err := c.r.Read(p)
	c.pool.Enter(cores.Foreground)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// cappedReader returns body_cap when more than max bytes are read.
type cappedReader struct {
	r    io.Reader
	left int64
	name string // what is limited, in the error
	why  string // what sets the limit; "" is "the limit is"
	max  int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, status.Errorf(status.BodyCap, "%s is too long: %s %s",
			c.name, cmp.Or(c.why, "the limit is"), limits.Bytes(c.max).Human())
	}
	return n, err
}
