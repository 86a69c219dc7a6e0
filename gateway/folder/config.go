package folder

import (
	"allium/gateway/exchange"
	"allium/internal/limits"
)

// Config limits the directories that are sent in one answer.
// node/config/keys.txt says what each key means.
type Config struct {
	MaxEntries int64        `koanf:"archive_entries" hot:"true"`
	MaxBytes   limits.Bytes `koanf:"archive_bytes" hot:"true"`
}

// maxEntries is the highest value of gateway.archive_entries: a zip takes 4 bytes of memory for each.
const maxEntries = 1 << 24

// DefaultConfig returns the limits of a node.
func DefaultConfig() Config { return Config{MaxEntries: 200_000, MaxBytes: 64 << 30} }

// Validate returns bad_request and names the first key with an invalid value.
func (c Config) Validate() error {
	return exchange.CheckMinimums(map[string]bool{
		"archive_entries": c.MaxEntries >= 1 && c.MaxEntries <= maxEntries, "archive_bytes": c.MaxBytes >= 1,
	})
}
