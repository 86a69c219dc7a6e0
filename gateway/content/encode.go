package content

import (
	"io"
	"net/http"

	"allium/gateway/exchange"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// encoders is how many listings are compressed at once: each takes about a
// mebibyte of memory. Those beyond are sent as they are.
const encoders = 16

// listingWindow bounds what a listing's encoder remembers.
const listingWindow = 128 << 10

// encodingFor is the content coding that a client wants most of those that
// listings are sent in; "" is none (RFC 9110 §12.5.3).
func encodingFor(r *http.Request) string {
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

// encoder compresses what is written to it. Close ends the encoding, not what
// it writes to.
func encoder(to io.Writer, name string) (io.WriteCloser, error) {
	if name == "zstd" {
		return zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(listingWindow), zstd.WithLowerEncoderMem(true))
	}
	return gzip.NewWriter(to), nil
}
