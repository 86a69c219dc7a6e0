package content

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"allium/gateway/exchange"
	"allium/internal/cores"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxEncoders bounds the listings that are compressed at once, about 1 MiB of memory each.
// The next listing is sent uncompressed.
const maxEncoders = 16

// listingWindow is the zstd window of a listing, in bytes.
const listingWindow = 128 << 10

// preferredCoding returns the content coding that the client prefers: gzip, zstd, or "" for
// none (RFC 9110 §12.5.3). Between equals it prefers zstd.
func preferredCoding(r *http.Request) string {
	best, most := "", 0.0
	for name, q := range exchange.Accepted(r.Header.Values("Accept-Encoding")) {
		if name != "gzip" && name != "zstd" {
			continue
		}
		if q > most || q == most && name == "zstd" {
			best, most = name, q
		}
	}
	if most == 0 {
		return ""
	}
	return best
}

// encoder compresses. Flush makes what was written so far readable; Close ends the encoding.
type encoder interface {
	io.WriteCloser
	Flush() error
}

// newEncoder returns an encoder that writes to to and does not close it. It takes a core of pool for each of its calls,
// within ctx, and gives it back before it writes to to, which may wait for the client.
func newEncoder(ctx context.Context, pool *cores.Pool, to io.Writer, name string) (encoder, error) {
	e := &sharingEncoder{ctx: ctx, pool: pool, to: to}
	if name != "zstd" {
		e.encoder = gzip.NewWriter(&e.made)
		return e, nil
	}
	var err error
	e.encoder, err = zstd.NewWriter(&e.made, zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(listingWindow), zstd.WithLowerEncoderMem(true))
	return e, err
}

// sharingEncoder is an encoder that shares the cores.
type sharingEncoder struct {
	encoder
	ctx  context.Context
	pool *cores.Pool // nil: no bound
	made bytes.Buffer
	to   io.Writer
}

func (e *sharingEncoder) Write(p []byte) (int, error) {
	err := e.run(func() error { _, err := e.encoder.Write(p); return err })
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *sharingEncoder) Flush() error { return e.run(e.encoder.Flush) }
func (e *sharingEncoder) Close() error { return e.run(e.encoder.Close) }

func (e *sharingEncoder) run(call func() error) error {
	if err := e.pool.Acquire(e.ctx, cores.Foreground); err != nil {
		return err
	}
	err := call()
	e.pool.Leave(cores.Foreground)
	if err == nil {
		_, err = e.made.WriteTo(e.to)
	}
	return err
}
