package exchange

import (
	"maps"
	"slices"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// BodyConfig limits the bodies of requests. All fields are fixed; tests set other values.
type BodyConfig struct {
	// ReadTimeout is the longest pause in a request's body, beside the time that MinRate allows.
	// A longer pause is timeout.
	ReadTimeout time.Duration `fixed:"read_timeout"`

	// Decoders bounds the compressed uploads decoded at once, up to 8 MiB of memory each. The
	// next upload is refused with busy.
	Decoders int64 `fixed:"decoders"`

	// DecompressRatio is the highest ratio of a body's decoded to its compressed size, checked
	// from 64 KiB of output. A higher ratio is decompress_cap.
	DecompressRatio int64 `fixed:"decompress_ratio"`

	// DecompressBytes bounds the decoded size of a compressed body that is held in memory. A
	// larger body is decompress_cap.
	DecompressBytes limits.Bytes `fixed:"decompress_bytes"`

	// BodyBytes bounds a JSON body. A larger body is body_cap.
	BodyBytes limits.Bytes `fixed:"body_bytes"`
}

// DefaultBodyConfig returns the limits of SPEC §2.
func DefaultBodyConfig() BodyConfig {
	return BodyConfig{
		ReadTimeout: 5 * time.Second, Decoders: 16, DecompressRatio: 10, DecompressBytes: 10 << 20, BodyBytes: 1 << 20,
	}
}

// CheckMinimums returns bad_request if a configuration key below gateway has a value that is too
// small. valid maps key names to whether their values are valid. The error names the first
// invalid key in alphabetical order.
func CheckMinimums(valid map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(valid)) {
		if !valid[name] {
			return status.Errorf(status.BadRequest,
				"gateway.%s is too small. `allium config explain gateway.%s` shows what it may be", name, name)
		}
	}
	return nil
}

// maxPerIP is the highest limit per client. The counter takes 8 bytes for each place.
const maxPerIP = 1 << 20

// CheckPerIP returns bad_request if the value n of a limit per client is too high.
func CheckPerIP(key string, n int64) error {
	if n > maxPerIP {
		return status.Errorf(status.BadRequest,
			"gateway.%s is %d, more than %d. Set it to a lower number, or to 0 for no limit", key, n, maxPerIP)
	}
	return nil
}
