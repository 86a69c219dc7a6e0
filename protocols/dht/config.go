package dht

import (
	"slices"
	"time"

	"allium/protocols/dht/allowance"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/routing"
	"allium/protocols/dht/seeds"
	"allium/protocols/dht/sweep"
	"allium/protocols/kad"
	"allium/protocols/status"
)

// Config configures discovery. A change takes effect at the next start.
// node/config/keys.txt documents the keys.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Server bool `koanf:"server"`

	Seeds seeds.Config `koanf:",squash"`

	Alpha      int           `koanf:"alpha" hot:"true"`
	Beta       int           `koanf:"beta" hot:"true"`
	HedgeAfter time.Duration `koanf:"hedge_after" hot:"true"`

	Lookups int `koanf:"lookups" hot:"true"`
	Dials   int `koanf:"dials" hot:"true"`

	FindTimeout time.Duration `koanf:"find_timeout" hot:"true"`

	RecordTTL time.Duration `koanf:"record_ttl"`
	Republish time.Duration `koanf:"republish"`

	MaxRecords int `koanf:"max_records" hot:"true"`

	Announce Announce `koanf:"announce"`

	Announcers int `koanf:"announcers"`

	Guard allowance.Config `koanf:"guard"` // a TOML table, so it comes last in the file
}

// Announce selects what a node announces. Deps.Roots lists the objects.
type Announce string

// The selections.
const (
	AnnounceRoots  Announce = "roots"  // pinned objects
	AnnouncePinned Announce = "pinned" // pinned objects and all that pinned directories name
	AnnounceAll    Announce = "all"    // every stored object
)

// DefaultConfig returns the numbers of SPEC §2 and §5.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		Alpha: 3, Beta: 2, HedgeAfter: 250 * time.Millisecond, FindTimeout: 2 * time.Second,
		Lookups: 128, Dials: 64,
		RecordTTL: 24 * time.Hour, Republish: 12 * time.Hour,
		MaxRecords: 100_000, Announce: AnnounceRoots, Announcers: 4, Guard: allowance.DefaultConfig(),
	}
}

// Validate returns status.BadRequest with the first invalid key and its bounds.
func (c Config) Validate() error {
	if err := c.Seeds.Validate(); err != nil {
		return err
	}
	if err := c.Guard.Validate(); err != nil {
		return err
	}
	for _, b := range []struct {
		key        string
		v, lo, top int
	}{
		{"alpha", c.Alpha, 1, 16},
		{"beta", c.Beta, 0, 16},
		{"max_records", c.MaxRecords, 1, 100_000_000},
		{"lookups", c.Lookups, 1, 1_000_000},
		{"dials", c.Dials, 1, 1_000_000},
		{"announcers", c.Announcers, 1, 64},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "dht.%s is %d, outside %d to %d", b.key, b.v, b.lo, b.top)
		}
	}
	for _, b := range []struct {
		key        string
		v, lo, top time.Duration
	}{
		{"hedge_after", c.HedgeAfter, 10 * time.Millisecond, c.RPCTimeout},
		{"find_timeout", c.FindTimeout, 10 * time.Millisecond, time.Minute},
		{"record_ttl", c.RecordTTL, time.Minute, messages.MaxLifetime},
		{"republish", c.Republish, 30 * time.Second, c.RecordTTL},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "dht.%s is %s, outside %s to %s", b.key, b.v, b.lo, b.top)
		}
	}
	if !slices.Contains([]Announce{AnnounceRoots, AnnouncePinned, AnnounceAll}, c.Announce) {
		return status.Errorf(status.BadRequest, "dht.announce is %q: must be roots, pinned or all", c.Announce)
	}
	return nil
}

// findConfig returns the hedged lookup configuration.
func (c Config) findConfig() kad.Config {
	f := kad.Find()
	f.K, f.Alpha, f.Beta, f.Hops = c.K, c.Alpha, c.Beta, c.HopBudget
	f.HedgeAfter, f.RPCTimeout, f.Deadline = c.HedgeAfter, c.RPCTimeout, c.FindTimeout
	if c.Beta == 0 {
		f.HedgeAfter = 0
	}
	return f
}

// routingConfig returns the configuration of the routing table.
func (c Config) routingConfig() routing.Config {
	return routing.Config{K: c.K, GroupShare: c.GroupShare, StaleAfter: c.Refresh}
}

// sweepConfig returns the configuration of the republish sweep. A region that was split off
// another may be published up to a twelfth of the interval late; by default records live for
// two intervals.
func (c Config) sweepConfig() sweep.Config {
	return sweep.Config{Interval: c.Republish, MaxDelay: c.Republish / 12, K: c.K, Workers: c.Announcers}
}

// publishConfig returns the lookup configuration without hedging.
func (c Config) publishConfig() kad.Config {
	p := c.findConfig()
	p.Beta, p.HedgeAfter, p.Deadline = 0, 0, c.PublishTimeout
	return p
}

// Reconfigure applies the hot fields of a valid configuration at once. Lookups that run keep theirs, and records beyond
// max_records stay until others take their places.
func (s *Service) Reconfigure(cfg Config) {
	s.cfg.Store(&cfg)
	s.lookups.gate.Resize(int64(cfg.Lookups))
	s.rpc.dials.Resize(int64(cfg.Dials))
	setTotal(s.store, cfg.MaxRecords)
	s.guard.Reconfigure(cfg.Guard)
	s.bootstrapper.Reconfigure(cfg.Seeds)
}
