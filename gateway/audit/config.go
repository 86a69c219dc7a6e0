package audit

import (
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config bounds the audit log.
type Config struct {
	Enabled  bool         `koanf:"enabled" doc:"write a hash-chained log of mutations and refusals below the home directory, audit/; with amnesia each record is a line of the node's log instead"`
	MaxBytes limits.Bytes `koanf:"max_bytes" disk:"" doc:"size of a file of the audit log, above which the next one is begun"`
	Keep     int          `koanf:"keep" disk:"" doc:"files of the audit log that are kept; the oldest is removed when there are more"`
	Queue    int          `koanf:"queue" doc:"records that wait to be written; a mutation that finds no room is refused with busy"`
	Refusals float64      `koanf:"refusals" doc:"refusals a second that are recorded of each outcome; the others are counted in one record"`
}

// DefaultConfig keeps up to 1 GiB.
func DefaultConfig() Config {
	return Config{Enabled: true, MaxBytes: 64 << 20, Keep: 16, Queue: 512, Refusals: 20}
}

// Validate returns bad_request naming the first key that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.MaxBytes < 64<<10:
		return status.Errorf(status.BadRequest, "audit.max_bytes must be at least 64KiB")
	case c.Keep < 2:
		return status.Errorf(status.BadRequest, "audit.keep must be at least 2: the file being written and the one before it")
	case c.Queue < 1 || c.Queue > 1<<16:
		return status.Errorf(status.BadRequest, "audit.queue must be 1 to 65536")
	case c.Refusals < 1:
		return status.Errorf(status.BadRequest, "audit.refusals must be at least 1")
	}
	return nil
}
