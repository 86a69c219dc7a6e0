package dht

import (
	"slices"
	"time"

	"allium/protocols/dht/guard"
	"allium/protocols/dht/routing"
	"allium/protocols/dht/seeds"
	"allium/protocols/dht/sweep"
	"allium/protocols/kad"
	"allium/protocols/status"
)

// Config is the configuration of discovery. All of it is cold.
type Config struct {
	Server bool `koanf:"server" doc:"Whether to answer routing queries in any case; otherwise a node does unless it is known to be unreachable."`

	Seeds seeds.Config `koanf:",squash"`

	K          int           `koanf:"k" doc:"Peers that hold a record, and bucket size of the routing table; between 1 and 20."`
	Alpha      int           `koanf:"alpha" doc:"Peers asked at one time by a lookup; between 1 and 16."`
	Beta       int           `koanf:"beta" doc:"Further peers asked in place of late ones; between 0 and 16; 0 turns hedging off."`
	HedgeAfter time.Duration `koanf:"hedge_after" doc:"Time after which a peer that nothing is known of is late; others are after twice their round-trip time, at least 75 ms and at most this; between 10 ms and rpc_timeout."`
	HedgeFixed bool          `koanf:"hedge_fixed" doc:"Whether every peer is late after hedge_after, however fast it is known to be."`
	HopBudget  int           `koanf:"hop_budget" doc:"Hops a lookup may take, the own table being the first; between 1 and 16."`
	Refresh    time.Duration `koanf:"refresh" doc:"Time after which the routing table is refreshed, ± 20 %; between 10 s and 24 h."`
	GroupShare float64       `koanf:"group_share" doc:"Share of a bucket that peers of one IP group (IPv4 /16; IPv6 ASN, or /32) may have; private addresses are exempt; above 0, at most 1."`

	Lookups int `koanf:"lookups" doc:"Lookups running at one time; 512 wait, more are refused with busy; at least 1."`
	Dials   int `koanf:"dials" doc:"Strangers dialled by lookups at one time; further ones wait; at least 1."`

	RPCTimeout     time.Duration `koanf:"rpc_timeout" doc:"Time for one call to a peer, dial included; between 10 ms and 30 s."`
	FindTimeout    time.Duration `koanf:"find_timeout" doc:"Time for finding providers; between 10 ms and 60 s."`
	PublishTimeout time.Duration `koanf:"publish_timeout" doc:"Time for publishing one record; between 100 ms and 10 min."`

	RecordTTL time.Duration `koanf:"record_ttl" doc:"Life of the records this node signs; between 1 min and 24 h."`
	Republish time.Duration `koanf:"republish" doc:"Time after which records are published again, ± 10 %; between 30 s and record_ttl."`

	MaxPerKey  int `koanf:"max_per_key" doc:"Records held for one object, of which no IP group may keep more than others want; between 1 and 20, as many as an answer carries."`
	MaxPerPeer int `koanf:"max_per_peer" doc:"Records held of one provider; between 1 and max_records."`
	MaxRecords int `koanf:"max_records" doc:"Records held in all, about 500 bytes each; when it is reached, the IP group with most gives way to those with fewer; at least 1."`

	Announce Announce `koanf:"announce" doc:"What this node announces: roots (pinned objects), pinned (and all that pinned directories name) or all (every object it holds)."`

	AnnounceQueue int `koanf:"announce_queue" doc:"Objects waiting to be announced; at least 1."`
	Announcers    int `koanf:"announcers" doc:"Records published at one time in the background; between 1 and 64."`

	Guard guard.Config `koanf:"guard"` // a table of its own: last in the file
}

// Announce is what a node announces. Deps.Roots lists it.
type Announce string

// What to announce.
const (
	AnnounceRoots  Announce = "roots"  // pinned objects
	AnnouncePinned Announce = "pinned" // and all that pinned directories name
	AnnounceAll    Announce = "all"    // every object held
)

// DefaultConfig returns the numbers of SPEC §2 and §5.
func DefaultConfig() Config {
	return Config{
		K: 20, Alpha: 3, Beta: 2, HedgeAfter: 250 * time.Millisecond, HopBudget: 5,
		Refresh: 10 * time.Minute, GroupShare: 0.4, Lookups: 128, Dials: 64,
		RPCTimeout: 1500 * time.Millisecond, FindTimeout: 2 * time.Second, PublishTimeout: time.Minute,
		RecordTTL: 24 * time.Hour, Republish: 12 * time.Hour,
		MaxPerKey: maxProviders, MaxPerPeer: 25_000, MaxRecords: 100_000,
		Guard: guard.DefaultConfig(), Announce: AnnounceRoots, AnnounceQueue: 4096, Announcers: 4,
	}
}

// Validate returns status.BadRequest with the key that is wrong and its bounds.
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
		{"k", c.K, 1, maxCloser},
		{"alpha", c.Alpha, 1, 16},
		{"beta", c.Beta, 0, 16},
		{"hop_budget", c.HopBudget, 1, 16},
		{"max_per_key", c.MaxPerKey, 1, maxProviders},
		{"max_per_peer", c.MaxPerPeer, 1, c.MaxRecords},
		{"max_records", c.MaxRecords, 1, 100_000_000},
		{"lookups", c.Lookups, 1, 1_000_000},
		{"dials", c.Dials, 1, 1_000_000},
		{"announce_queue", c.AnnounceQueue, 1, 10_000_000},
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
		{"rpc_timeout", c.RPCTimeout, 10 * time.Millisecond, 30 * time.Second},
		{"hedge_after", c.HedgeAfter, 10 * time.Millisecond, c.RPCTimeout},
		{"refresh", c.Refresh, 10 * time.Second, 24 * time.Hour},
		{"find_timeout", c.FindTimeout, 10 * time.Millisecond, time.Minute},
		{"publish_timeout", c.PublishTimeout, 100 * time.Millisecond, 10 * time.Minute},
		{"record_ttl", c.RecordTTL, time.Minute, maxLifetime},
		{"republish", c.Republish, 30 * time.Second, c.RecordTTL},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "dht.%s is %s, outside %s to %s", b.key, b.v, b.lo, b.top)
		}
	}
	if !slices.Contains([]Announce{AnnounceRoots, AnnouncePinned, AnnounceAll}, c.Announce) {
		return status.Errorf(status.BadRequest, "dht.announce is %q: must be roots, pinned or all", c.Announce)
	}
	if !(c.GroupShare > 0 && c.GroupShare <= 1) {
		return status.Errorf(status.BadRequest, "dht.group_share is %g, outside 0 to 1", c.GroupShare)
	}
	return nil
}

// find is the hedged mode of kad.
func (c Config) find() kad.Config {
	f := kad.Find()
	f.K, f.Alpha, f.Beta, f.Hops = c.K, c.Alpha, c.Beta, c.HopBudget
	f.HedgeAfter, f.RPCTimeout, f.Deadline = c.HedgeAfter, c.RPCTimeout, c.FindTimeout
	if c.Beta == 0 {
		f.HedgeAfter = 0
	}
	return f
}

// routing is the shape of the routing table.
func (c Config) routing() routing.Config {
	return routing.Config{K: c.K, GroupShare: c.GroupShare, StaleAfter: c.Refresh}
}

// sweep is the pace of republishing: a region that grew out of another may come
// a twelfth later, as long as records live twice that long.
func (c Config) sweep() sweep.Config {
	return sweep.Config{Interval: c.Republish, MaxDelay: c.Republish / 12, K: c.K, Workers: c.Announcers}
}

// publish is the patient mode of kad.
func (c Config) publish() kad.Config {
	p := c.find()
	p.Beta, p.HedgeAfter, p.Deadline = 0, 0, c.PublishTimeout
	return p
}
