package guard

import (
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config bounds the requests that a node answers for discovery.
type Config struct {
	Rate         int          `koanf:"rate" doc:"Requests per second of all peers, with a burst of as many; at least 1."`
	Inflight     int          `koanf:"inflight" doc:"Requests in flight of all peers, from their length until their answer is sent; at least 1."`
	Bytes        limits.Bytes `koanf:"bytes" doc:"Bytes of requests in flight; less than the longest request (16KiB) refuses it always."`
	PeerRate     int          `koanf:"peer_rate" doc:"Requests per second of one peer, with a burst of as many; at least 1."`
	PeerInflight int          `koanf:"peer_inflight" doc:"Requests in flight of one peer; at least 1."`
	Workers      int          `koanf:"workers" doc:"Requests being worked on at one time; 0: four per processor."`
	Queue        int          `koanf:"queue" doc:"Requests waiting to be worked on; the next is refused with busy."`
}

// DefaultConfig returns the numbers of SPEC §2.
func DefaultConfig() Config {
	return Config{Rate: 3000, Inflight: 1024, Bytes: 64 << 20, PeerRate: 500, PeerInflight: 64, Queue: 512}
}

// Validate returns status.BadRequest with the key that is wrong and its bounds.
func (c Config) Validate() error {
	for _, b := range []struct {
		key        string
		v, lo, top int64
	}{
		{"rate", int64(c.Rate), 1, 1_000_000},
		{"inflight", int64(c.Inflight), 1, 1_000_000},
		{"bytes", int64(c.Bytes), 1, 1 << 40},
		{"peer_rate", int64(c.PeerRate), 1, 1_000_000},
		{"peer_inflight", int64(c.PeerInflight), 1, 1_000_000},
		{"workers", int64(c.Workers), 0, 100_000},
		{"queue", int64(c.Queue), 0, 1_000_000},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "dht.guard.%s is %d, outside %d to %d", b.key, b.v, b.lo, b.top)
		}
	}
	return nil
}

// workers is how many requests are worked on at one time. The work is a look
// at the routing table, or a record to verify or to sign: more than a few for
// each processor only wait for each other.
func (c Config) workers(cores int) int64 {
	if c.Workers > 0 {
		return int64(c.Workers)
	}
	return 4 * int64(cores)
}
