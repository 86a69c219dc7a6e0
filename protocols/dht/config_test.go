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
		"bootstrap":       func(c *Config) { c.Seeds.Bootstrap = []string{"example.org"} },
		"beta":            func(c *Config) { c.Beta = -1 },
		"hedge_after":     func(c *Config) { c.HedgeAfter = 2 * c.RPCTimeout },
		"refresh":         func(c *Config) { c.Refresh = 0 },
		"group_share":     func(c *Config) { c.GroupShare = 0 },
		"lookups":         func(c *Config) { c.Lookups = 0 },
		"dials":           func(c *Config) { c.Dials = 0 },
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
		"guard.rate":      func(c *Config) { c.Guard.Rate = 0 },
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
