package dht

import (
	"strings"
	"testing"

	"allium/protocols/status"
)

func TestDefaultConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestConfigRefusals(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"bootstrap":       func(c *Config) { c.Bootstrap = []string{"/ip4/192.0.2.1/tcp/4901"} },
		"bootstrap ":      func(c *Config) { c.Bootstrap = []string{"example.org"} },
		"bootstrap  ":     func(c *Config) { c.Bootstrap = make([]string, maxSeeds+1) },
		"k":               func(c *Config) { c.K = 21 },
		"alpha":           func(c *Config) { c.Alpha = 0 },
		"hop_budget":      func(c *Config) { c.HopBudget = 0 },
		"rpc_timeout":     func(c *Config) { c.RPCTimeout = 0 },
		"find_timeout":    func(c *Config) { c.FindTimeout = 0 },
		"publish_timeout": func(c *Config) { c.PublishTimeout = 0 },
		"record_ttl":      func(c *Config) { c.RecordTTL = 2 * maxLifetime },
		"republish":       func(c *Config) { c.Republish = 2 * c.RecordTTL },
		"max_per_key":     func(c *Config) { c.MaxPerKey = maxProviders + 1 },
		"max_per_peer":    func(c *Config) { c.MaxPerPeer = c.MaxRecords + 1 },
		"max_records":     func(c *Config) { c.MaxRecords, c.MaxPerPeer = 0, 1 },
		"rate":            func(c *Config) { c.Rate = 0 },
		"max_inflight":    func(c *Config) { c.MaxInflight = 0 },
		"announce_queue":  func(c *Config) { c.AnnounceQueue = 0 },
		"announcers":      func(c *Config) { c.Announcers = 0 },
	} {
		c := DefaultConfig()
		spoil(&c)
		err := c.Validate()
		if key == "max_records" {
			key = "max_per_peer" // there is no room for one record then
		}
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), strings.TrimSpace(key)) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

// TestSeedsAreJoined: several addresses of one seed are one seed.
func TestSeedsAreJoined(t *testing.T) {
	c := DefaultConfig()
	id := newIdentity(t).id.String()
	c.Bootstrap = []string{"/ip4/192.0.2.1/tcp/1/p2p/" + id, "/ip4/192.0.2.1/udp/1/quic-v1/p2p/" + id}
	seeds, err := c.seeds()
	if err != nil || len(seeds) != 1 || len(seeds[0].Addrs) != 2 {
		t.Errorf("got %v, %v", seeds, err)
	}
}
