package exchange

import (
	"maps"
	"slices"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// BodyConfig bounds the bodies of requests. All of it is fixed; tests set it.
type BodyConfig struct {
	// ReadTimeout is how long a client may send nothing of a request's body, beside the time that
	// MinRate allows; then timeout.
	ReadTimeout time.Duration `fixed:"read_timeout"`

	// Decoders bounds the compressed uploads decoded at once, with up to 8 MiB of memory each. The
	// next is refused with busy.
	Decoders int64 `fixed:"decoders"`

	// DecompressRatio is how many times its size a compressed body may grow to, counted above 64 KiB;
	// more is decompress_cap.
	DecompressRatio int64 `fixed:"decompress_ratio"`

	// DecompressBytes bounds what a compressed body decodes to where it is read whole into memory;
	// more is decompress_cap.
	DecompressBytes limits.Bytes `fixed:"decompress_bytes"`

	// BodyBytes bounds a body of JSON; more is body_cap.
	BodyBytes limits.Bytes `fixed:"body_bytes"`
}

// DefaultBodyConfig returns the limits of SPEC §2.
func DefaultBodyConfig() BodyConfig {
	return BodyConfig{ReadTimeout: 5 * time.Second, Decoders: 16, DecompressRatio: 10, DecompressBytes: 10 << 20, BodyBytes: 1 << 20}
}

// CheckKeys returns bad_request naming the first key below gateway, by its name,
// whose value is not valid because it is too small.
func CheckKeys(valid map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(valid)) {
		if !valid[name] {
			return status.Errorf(status.BadRequest, "gateway.%s is too small; see `allium config show`", name)
		}
	}
	return nil
}

// maxPerIP bounds what one client may be allowed: each place takes 8 bytes.
const maxPerIP = 1 << 20

// CheckPerIP returns bad_request where a key allows one client more places than
// can be counted.
func CheckPerIP(key string, n int64) error {
	if n > maxPerIP {
		return status.Errorf(status.BadRequest, "gateway.%s is %d; at most %d can be counted, and 0 is no limit", key, n, maxPerIP)
	}
	return nil
}
