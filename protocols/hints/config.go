package hints

import (
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Config is the configuration of announcements by gossip. All of it is cold.
type Config struct {
	TTL    time.Duration `koanf:"ttl" doc:"Life of the announcements this node signs: by then the DHT knows; between 1 min and 24 h."`
	Linger time.Duration `koanf:"linger" doc:"Time for which objects are gathered to be announced together; between 10 ms and 10 s."`
	Queue  int           `koanf:"queue" doc:"Objects waiting to be announced or withdrawn; those beyond are found through the DHT alone; at least 1."`

	MaxAnnouncements int          `koanf:"max_announcements" doc:"Announcements held, of up to 512 objects each; one provider has at most an eighth; between 8 and 262,144."`
	MaxBytes         limits.Bytes `koanf:"max_bytes" doc:"Memory for announcements held, about; one provider has at most an eighth; at least 1MiB."`

	SyncInterval time.Duration `koanf:"sync_interval" doc:"Most time between comparisons with a peer, ± 20 %, reached by doubling while they find no difference; between 100 ms and 1 h."`
	SyncSoon     time.Duration `koanf:"sync_soon" doc:"Time from something new to the next comparison, ± 20 %; a quarter of it after a comparison that found a difference; between 40 ms and sync_interval."`
	SyncServed   int           `koanf:"sync_served" doc:"Comparisons answered at one time; further ones get busy; at least 1."`
	SyncPeerRate int           `koanf:"sync_peer_rate" doc:"Comparisons per second that peers of one IP group may ask for, or one peer where it is in none, with a burst of four times as many; at least 1."`
}

// DefaultConfig is for a node among thousands, and for five on a desk.
func DefaultConfig() Config {
	return Config{
		TTL: time.Hour, Linger: 250 * time.Millisecond, Queue: 4096,
		MaxAnnouncements: 20_000, MaxBytes: 32 << 20,
		SyncInterval: 8 * time.Second, SyncSoon: 500 * time.Millisecond, SyncServed: 8, SyncPeerRate: 4,
	}
}

// Validate returns status.BadRequest with the key that is wrong and its bounds.
func (c Config) Validate() error {
	for _, b := range []struct {
		key        string
		v, lo, top int64
	}{
		{"queue", int64(c.Queue), 1, 10_000_000},
		{"max_announcements", int64(c.MaxAnnouncements), shareOf, mostHeld},
		{"max_bytes", int64(c.MaxBytes), 1 << 20, 1 << 40},
		{"sync_served", int64(c.SyncServed), 1, 10_000},
		{"sync_peer_rate", int64(c.SyncPeerRate), 1, 10_000},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "announce.%s is %d, outside %d to %d", b.key, b.v, b.lo, b.top)
		}
	}
	for _, b := range []struct {
		key        string
		v, lo, top time.Duration
	}{
		{"ttl", c.TTL, time.Minute, maxLifetime},
		{"linger", c.Linger, 10 * time.Millisecond, 10 * time.Second},
		{"sync_interval", c.SyncInterval, 100 * time.Millisecond, time.Hour},
		{"sync_soon", c.SyncSoon, 40 * time.Millisecond, c.SyncInterval},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "announce.%s is %s, outside %s to %s", b.key, b.v, b.lo, b.top)
		}
	}
	return nil
}
