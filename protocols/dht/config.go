package dht

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/status"
)

// Config is the configuration of discovery. All of it is cold.
type Config struct {
	Server    bool     `koanf:"server" doc:"Whether to answer routing queries in any case; otherwise a node does unless it is known to be unreachable."`
	Bootstrap []string `koanf:"bootstrap" doc:"Multiaddrs of seeds, each ending in /p2p/ID; at most 256."`

	K         int `koanf:"k" doc:"Peers that hold a record, and bucket size of the routing table; between 1 and 20."`
	Alpha     int `koanf:"alpha" doc:"Peers asked at one time by a lookup; between 1 and 16."`
	HopBudget int `koanf:"hop_budget" doc:"Hops a lookup may take, the own table being the first; between 1 and 16."`

	RPCTimeout     time.Duration `koanf:"rpc_timeout" doc:"Time for one call to a peer, dial included; between 10 ms and 30 s."`
	FindTimeout    time.Duration `koanf:"find_timeout" doc:"Time for finding providers; between 10 ms and 60 s."`
	PublishTimeout time.Duration `koanf:"publish_timeout" doc:"Time for publishing one record; between 100 ms and 10 min."`

	RecordTTL time.Duration `koanf:"record_ttl" doc:"Life of the records this node signs; between 1 min and 24 h."`
	Republish time.Duration `koanf:"republish" doc:"Time after which records are published again, ± 10 %; between 30 s and record_ttl."`

	MaxPerKey  int `koanf:"max_per_key" doc:"Records held for one object; between 1 and 20, as many as an answer carries."`
	MaxPerPeer int `koanf:"max_per_peer" doc:"Records held of one provider; between 1 and max_records."`
	MaxRecords int `koanf:"max_records" doc:"Records held in all, about 350 bytes each; at least 1."`

	Rate          int `koanf:"rate" doc:"Requests of the provider exchange answered per second, with a burst of as many; at least 1."`
	MaxInflight   int `koanf:"max_inflight" doc:"Requests of the provider exchange being answered at one time; at least 1."`
	AnnounceQueue int `koanf:"announce_queue" doc:"Objects waiting to be announced; at least 1."`
	Announcers    int `koanf:"announcers" doc:"Records published at one time in the background; between 1 and 64."`
}

// DefaultConfig returns the numbers of SPEC §2 and §5.
func DefaultConfig() Config {
	return Config{
		K: 20, Alpha: 3, HopBudget: 5,
		RPCTimeout: 1500 * time.Millisecond, FindTimeout: 2 * time.Second, PublishTimeout: time.Minute,
		RecordTTL: 24 * time.Hour, Republish: 12 * time.Hour,
		MaxPerKey: maxProviders, MaxPerPeer: 25_000, MaxRecords: 100_000,
		Rate: 3000, MaxInflight: 1024, AnnounceQueue: 4096, Announcers: 4,
	}
}

// maxSeeds bounds the bootstrap list.
const maxSeeds = 256

// Validate returns status.BadRequest with the key that is wrong and its bounds.
func (c Config) Validate() error {
	if len(c.Bootstrap) > maxSeeds {
		return status.Errorf(status.BadRequest, "dht.bootstrap has %d addresses, more than %d", len(c.Bootstrap), maxSeeds)
	}
	if _, err := c.seeds(); err != nil {
		return err
	}
	for _, b := range []struct {
		key        string
		v, lo, top int
	}{
		{"k", c.K, 1, maxCloser},
		{"alpha", c.Alpha, 1, 16},
		{"hop_budget", c.HopBudget, 1, 16},
		{"max_per_key", c.MaxPerKey, 1, maxProviders},
		{"max_per_peer", c.MaxPerPeer, 1, c.MaxRecords},
		{"max_records", c.MaxRecords, 1, 100_000_000},
		{"rate", c.Rate, 1, 1_000_000},
		{"max_inflight", c.MaxInflight, 1, 1_000_000},
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
		{"find_timeout", c.FindTimeout, 10 * time.Millisecond, time.Minute},
		{"publish_timeout", c.PublishTimeout, 100 * time.Millisecond, 10 * time.Minute},
		{"record_ttl", c.RecordTTL, time.Minute, maxLifetime},
		{"republish", c.Republish, 30 * time.Second, c.RecordTTL},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "dht.%s is %s, outside %s to %s", b.key, b.v, b.lo, b.top)
		}
	}
	return nil
}

// seeds parses Bootstrap, joining the addresses of one seed.
func (c Config) seeds() ([]peer.AddrInfo, error) {
	addrs := make([]ma.Multiaddr, len(c.Bootstrap))
	for i, s := range c.Bootstrap {
		a, err := ma.NewMultiaddr(s)
		if err == nil {
			_, err = peer.AddrInfoFromP2pAddr(a)
		}
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "dht.bootstrap has %q: %w (write /ip4/ADDRESS/tcp/PORT/p2p/ID)", s, err)
		}
		addrs[i] = a
	}
	infos, err := peer.AddrInfosFromP2pAddrs(addrs...)
	if err != nil {
		return nil, fmt.Errorf("dht.bootstrap: %w", err)
	}
	return infos, nil
}
