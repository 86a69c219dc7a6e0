package dht

import (
	"strings"
	"testing"

	"allium/protocols/dht/messages"
	"allium/protocols/status"
)

func TestDefaultConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestConfigRefusals(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"bootstrap":    func(c *Config) { c.Seeds.Bootstrap = []string{"example.org"} },
		"beta":         func(c *Config) { c.Beta = -1 },
		"hedge_after":  func(c *Config) { c.HedgeAfter = 2 * c.RPCTimeout },
		"lookups":      func(c *Config) { c.Lookups = 0 },
		"dials":        func(c *Config) { c.Dials = 0 },
		"alpha":        func(c *Config) { c.Alpha = 0 },
		"find_timeout": func(c *Config) { c.FindTimeout = 0 },
		"record_ttl":   func(c *Config) { c.RecordTTL = 2 * messages.MaxLifetime },
		"republish":    func(c *Config) { c.Republish = 2 * c.RecordTTL },
		"max_records":  func(c *Config) { c.MaxRecords = 0 },
		"guard.rate":   func(c *Config) { c.Guard.Rate = 0 },
		"announcers":   func(c *Config) { c.Announcers = 0 },
	} {
		c := DefaultConfig()
		spoil(&c)
		err := c.Validate()
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), strings.TrimSpace(key)) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}
