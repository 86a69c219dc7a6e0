package content

import (
	"io"
	"net/http"

	"allium/gateway/exchange"

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

// newEncoder returns an encoder that writes to to and does not close it.
func newEncoder(to io.Writer, name string) (encoder, error) {
	if name == "zstd" {
		return zstd.NewWriter(to, zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(listingWindow), zstd.WithLowerEncoderMem(true))
	}
	return gzip.NewWriter(to), nil
}
