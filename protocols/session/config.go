package session

import (
	"fmt"
	"time"

	"allium/internal/limits"
)

// Config has the limits of the sessions of a node. Every field has a default;
// node/config/keys.txt describes each key.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	IdleTimeout time.Duration `koanf:"idle_timeout" hot:"true"`

	ControlRate  int64        `koanf:"control_rate" hot:"true"`
	EgressPolicy Overflow     `koanf:"egress_policy"`
	EgressBytes  limits.Bytes `koanf:"egress_bytes" hot:"true"`
	Sessions     int64        `koanf:"sessions" hot:"true"`
}

// DefaultConfig returns the limits of SPEC §2 (desktop).
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		IdleTimeout: 30 * time.Second,

		ControlRate:  200,
		EgressBytes:  64 << 20,
		EgressPolicy: Reject,
		Sessions:     16384,
	}
}

// Validate returns an error for the first field that is out of its bounds.
func (c Config) Validate() error {
	for _, n := range []struct {
		key         string
		n, min, max int64
	}{
		{"control_rate", c.ControlRate, 1, 1 << 20},
		{"egress_bytes", int64(c.EgressBytes), int64(c.PeerEgressBytes), 1 << 40},
		{"sessions", c.Sessions, 1, 1 << 24},
	} {
		if n.n < n.min || n.n > n.max {
			return fmt.Errorf("session.%s is %d: must be between %d and %d", n.key, n.n, n.min, n.max)
		}
	}
	if err := c.EgressPolicy.Validate(); err != nil {
		return fmt.Errorf("session.egress_policy: %w", err)
	}
	if c.IdleTimeout <= c.RequestTimeout {
		return fmt.Errorf("session.idle_timeout is %s: must be above %s, the time that a request may take",
			c.IdleTimeout,
			c.RequestTimeout)
	}
	return nil
}
