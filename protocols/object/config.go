package object

import (
	"fmt"

	"allium/internal/limits"
	"allium/protocols/oap"
)

// Config has the limits of the client and the server. Every field has a default;
// node/config/keys.txt describes each key.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	// MinRate is for client and server.
	MinRate limits.Bytes `koanf:"min_rate" hot:"true"`

	// The other fields are for the server.
	PeerInflight int64        `koanf:"peer_inflight" hot:"true"`
	Serving      int64        `koanf:"serving" hot:"true"`
	EgressBytes  limits.Bytes `koanf:"egress_bytes" hot:"true"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		MinRate: 8 << 10,

		PeerInflight: 32,
		Serving:      512,
		EgressBytes:  64 << 20,
	}
}

// Validate returns an error for the first field that is out of its bounds.
func (c Config) Validate() error {
	for _, n := range []struct {
		key string
		n   int64
		min int64
	}{
		{"min_rate", int64(c.MinRate), 1}, {"peer_inflight", c.PeerInflight, 1}, {"serving", c.Serving, 1},
		{"egress_bytes", int64(c.EgressBytes), minEgress},
	} {
		if n.n < n.min {
			return fmt.Errorf("object.%s is %d: must be at least %d", n.key, n.n, n.min)
		}
	}
	return nil
}

// minEgress is the size in bytes of the buffers for one frame of any length.
const minEgress = batchBytes + oap.MaxFrame
