package exchange

import (
	"maps"
	"slices"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// BodyConfig bounds the bodies of requests.
type BodyConfig struct {
	ReadTimeout     time.Duration `koanf:"read_timeout" doc:"how long a client may send nothing of a request's body, beside the time that min_rate allows; then timeout"`
	Decoders        int64         `koanf:"decoders" doc:"compressed uploads decoded at once, with up to 8 MiB of memory each; the next is refused with busy"`
	DecompressRatio int64         `koanf:"decompress_ratio" doc:"how many times its size a compressed body may grow to, counted above 64 KiB; more is decompress_cap"`
	DecompressBytes limits.Bytes  `koanf:"decompress_bytes" doc:"most bytes that a compressed body decodes to where it is read whole into memory; more is decompress_cap"`
	BodyBytes       limits.Bytes  `koanf:"body_bytes" doc:"most bytes of a body of JSON; more is body_cap"`
}

// DefaultBodyConfig returns the limits of SPEC §2.
func DefaultBodyConfig() BodyConfig {
	return BodyConfig{ReadTimeout: 5 * time.Second, Decoders: 16, DecompressRatio: 10, DecompressBytes: 10 << 20, BodyBytes: 1 << 20}
}

// Validate returns bad_request naming the first key that makes no sense.
func (c BodyConfig) Validate() error {
	return CheckKeys(map[string]bool{
		"read_timeout": c.ReadTimeout > 0, "decoders": c.Decoders >= 1, "decompress_ratio": c.DecompressRatio >= 1,
		"decompress_bytes": c.DecompressBytes >= 1, "body_bytes": c.BodyBytes >= 1,
	})
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
