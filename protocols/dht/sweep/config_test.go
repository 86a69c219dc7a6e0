package sweep

import (
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

func TestNewRefuses(t *testing.T) {
	w := newWorld(0, 0)
	deps := Deps{Self: "self", Router: w, Put: w.put, Addrs: func() []ma.Multiaddr { return w.addrs }, Roots: w.list}
	if _, err := New(pace, deps); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config, *Deps){
		"interval":  func(c *Config, _ *Deps) { c.Interval = time.Second },
		"no delay":  func(c *Config, _ *Deps) { c.MaxDelay = 0 },
		"delay":     func(c *Config, _ *Deps) { c.MaxDelay = c.Interval + 1 },
		"no k":      func(c *Config, _ *Deps) { c.K = 0 },
		"k":         func(c *Config, _ *Deps) { c.K = 21 },
		"no worker": func(c *Config, _ *Deps) { c.Workers = 0 },
		"workers":   func(c *Config, _ *Deps) { c.Workers = 65 },
		"self":      func(_ *Config, d *Deps) { d.Self = "" },
		"router":    func(_ *Config, d *Deps) { d.Router = nil },
		"put":       func(_ *Config, d *Deps) { d.Put = nil },
		"addrs":     func(_ *Config, d *Deps) { d.Addrs = nil },
		"roots":     func(_ *Config, d *Deps) { d.Roots = nil },
	} {
		c, d := pace, deps
		change(&c, &d)
		if _, err := New(c, d); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMetrics: the names of SPEC §5 are there from the start, once.
func TestMetrics(t *testing.T) {
	w := newWorld(0, 0)
	reg := prometheus.NewRegistry()
	deps := Deps{
		Env: env.Env{Metrics: reg}, Self: "self",
		Router: w,
		Put:    w.put,
		Addrs:  func() []ma.Multiaddr { return w.addrs },
		Roots:  w.list,
	}
	if _, err := New(pace, deps); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 2 || families[0].GetName() != "provide_lag_seconds" ||
		families[1].GetName() != "provider_republish_total" ||
		len(families[1].GetMetric()) != 2 {
		t.Errorf("%v, %v", families, err)
	}
	if _, err := New(pace, deps); err == nil {
		t.Error("two sweeps in one registry")
	}
}
