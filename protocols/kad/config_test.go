package kad

import (
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{Find(), Publish()} {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for name, spoil := range map[string]func(*Config){
		"K":          func(c *Config) { c.K = 0 },
		"Alpha":      func(c *Config) { c.Alpha = 0 },
		"Beta":       func(c *Config) { c.Beta = -1 },
		"HedgeAfter": func(c *Config) { c.HedgeAfter = -1 },
		"RPCTimeout": func(c *Config) { c.RPCTimeout = 0 },
		"Deadline":   func(c *Config) { c.Deadline = 0 },
		"Hops":       func(c *Config) { c.Hops = 0 },
		"MaxProbes":  func(c *Config) { c.MaxProbes = 0 },
	} {
		cfg := Find()
		spoil(&cfg)
		if _, err := New(cfg, Query[int]{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAdaptiveHedge(t *testing.T) {
	t.Parallel()
	const ms, limit = time.Millisecond, 250 * time.Millisecond
	for _, test := range []struct {
		seen []time.Duration
		want time.Duration
	}{
		{nil, limit},
		{[]time.Duration{10 * ms}, 75 * ms},
		{[]time.Duration{60 * ms}, 120 * ms},
		{[]time.Duration{60 * ms, 140 * ms}, 140 * ms},
		{[]time.Duration{400 * ms}, limit},
		{[]time.Duration{1 << 62}, limit}, // twice of it would overflow
		{[]time.Duration{-5 * ms}, 75 * ms},
	} {
		var rtt RTT
		for _, d := range test.seen {
			rtt.Observe(d)
		}
		if got := rtt.HedgeAfter(limit); got != test.want {
			t.Errorf("after %v: %v, want %v (mean %v)", test.seen, got, test.want, rtt.Mean())
		}
	}
	var rtt RTT
	rtt.Observe(60 * ms)
	if got := rtt.HedgeAfter(50 * ms); got != 50*ms {
		t.Errorf("%v, above the limit of 50 ms", got)
	}
}
