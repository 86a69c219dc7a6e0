package p2p

import (
	"strings"
	"testing"

	"allium/protocols/status"
)

func TestProfilesAreValid(t *testing.T) {
	for _, p := range Profiles() {
		c, err := ProfileConfig(p)
		if err != nil {
			t.Fatal(err)
		}
		if c.Profile != p {
			t.Errorf("%s: profile is %s", p, c.Profile)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := ProfileConfig("giganode"); status.Of(err) != status.BadRequest {
		t.Errorf("an unknown profile gives %v", err)
	}
}

func TestConfigRefusals(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"profile":          func(c *Config) { c.Profile = "x" },
		"port":             func(c *Config) { c.Port = 65536 },
		"port ":            func(c *Config) { c.Port = -1 },
		"addrs":            func(c *Config) { c.Listen = []string{"localhost:80"} },
		"addrs ":           func(c *Config) { c.Listen = []string{"/ip4/0.0.0.0/udp/1"} },
		"addrs  ":          func(c *Config) { c.Listen = []string{"/ip4/0.0.0.0/tcp/1/ws"} },
		"addrs   ":         func(c *Config) { c.Profile, c.Listen = Testnet, []string{"/ip4/0.0.0.0/tcp/0"} },
		"relays":           func(c *Config) { c.Relays = []string{"/ip4/1.2.3.4/tcp/1"} },
		"relays ":          func(c *Config) { c.Relays = make([]string, maxRelays+1) },
		"conns_low":        func(c *Config) { c.ConnsLow = 0 },
		"conns_high":       func(c *Config) { c.ConnsHigh = c.ConnsLow - 1 },
		"max_conns":        func(c *Config) { c.MaxConns = c.ConnsHigh - 1 },
		"max_conns_per_ip": func(c *Config) { c.MaxConnsPerIP = 0 },
		"new_conns_per_ip": func(c *Config) { c.NewConnsPerIP = 0 },
		"max_sessions":     func(c *Config) { c.MaxSessions = 0 },
		"max_memory":       func(c *Config) { c.MaxMemory = 1 },
	} {
		c := DefaultConfig()
		spoil(&c)
		err := c.Validate()
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), strings.TrimSpace(key)) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}
