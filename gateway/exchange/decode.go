package exchange

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"allium/internal/limits"
	"allium/protocols/status"
)

// ratioFloor is the output from which the ratio counts: ordinary text shrinks
// to a twelfth, and so much does no harm.
const ratioFloor = 64 << 10

// zstdWindow is the largest window that is decoded, and so the memory that one
// decoder takes.
const zstdWindow = 8 << 20

// decoder undoes the Content-Encoding of a request's body within bounds: gzip,
// zstd, or none. It counts what goes in and what comes out, over all members
// and frames together: more than ratio times as much out as in, counted above
// ratioFloor, is decompress_cap, and so is more than most.
//
// It is one request's; the bytes come from one goroutine.
type decoder struct {
	in    counted
	ahead *bufio.Reader // of in: what it holds was not decoded yet
	out   io.Reader     // nil before the first Read
	n     int64         // came out
	ratio int64
	most  int64 // −1: no bound
	name  string
	end   func()
}

// EncodingOf is the one Content-Encoding of a request's body, "" for none.
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
		return "", status.Errorf(status.Unsupported, "the body is encoded %d times; send it plain, or with gzip or zstd alone", len(all))
	}
	switch all[0] {
	case "identity":
		return "", nil
	case "gzip", "x-gzip": // the same, RFC 9110 §8.4.1.3
		return "gzip", nil
	case "zstd":
		return "zstd", nil
	}
	return "", status.Errorf(status.Unsupported, "Content-Encoding %q is not known here; send the body plain, or with gzip or zstd", Clip(all[0]))
}

// Decode returns what r decodes to, at most most bytes (−1: any number). busy
// says that as many bodies are decoded as may be; close is called once, when no
// more is read.
func (l *Bodies) Decode(h http.Header, r io.Reader, most int64) (_ io.Reader, close func(), err error) {
	name, err := EncodingOf(h)
	if err != nil {
		return nil, nil, err
	}
	if name == "" {
		if most < 0 {
			return r, func() {}, nil
		}
		return &capped{r: r, left: most, name: "the body", most: most}, func() {}, nil
	}
	release, err := l.decoding.TryAcquire()
	if err != nil {
		return nil, nil, err
	}
	d := &decoder{in: counted{r: r}, name: name, ratio: l.cfg.DecompressRatio, most: most, end: func() {}}
	return d, func() { d.end(); release() }, nil
}

// Read gives decoded bytes. The decoder is made with the first one, so that
// nothing is read of a body that is refused for another reason.
func (d *decoder) Read(p []byte) (int, error) {
	if d.out == nil {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	n, err := d.out.Read(p)
	d.n += int64(n)
	if d.n > ratioFloor && d.n > d.ratio*(d.in.n-int64(d.ahead.Buffered())) {
		return 0, status.Errorf(status.DecompressCap, "the body grows to more than %d times its size; send it plain", d.ratio)
	}
	if d.most >= 0 && d.n > d.most {
		return 0, status.Errorf(status.DecompressCap, "the body grows to more than %s", limits.Bytes(d.most).Human())
	}
	switch {
	case err == io.EOF && d.in.n == 0:
		return 0, d.wrong(err) // not even an empty frame
	case err != nil && err != io.EOF:
		return 0, d.wrong(err)
	}
	return n, err
}

func (d *decoder) begin() error {
	d.ahead = bufio.NewReaderSize(&d.in, 32<<10)
	if d.name == "gzip" {
		z, err := gzip.NewReader(d.ahead)
		if err != nil {
			return d.wrong(err)
		}
		d.out = z
		return nil
	}
	z, err := zstd.NewReader(d.ahead, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(zstdWindow))
	if err != nil {
		return d.wrong(err)
	}
	d.out, d.end = z, z.Close
	return nil
}

// wrong is an error of the body's reader as it is, and any other one the
// encoding's.
func (d *decoder) wrong(err error) error {
	switch {
	case d.in.err != nil:
		return d.in.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return status.Errorf(status.Unsupported, "the body needs a zstd window of more than %s; compress it without --long or --ultra", limits.Bytes(zstdWindow).Human())
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return status.Errorf(status.BadRequest, "the body is not whole or no %s: %w", d.name, err)
}

// counted counts what is read through it and keeps the error that ended it.
type counted struct {
	r   io.Reader
	n   int64
	err error // never io.EOF
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// capped is body_cap once more than left was read.
type capped struct {
	r    io.Reader
	left int64
	name string // of what is bounded
	most int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, status.Errorf(status.BodyCap, "%s has more than %s, which is all that it may", c.name, limits.Bytes(c.most).Human())
	}
	return n, err
}
