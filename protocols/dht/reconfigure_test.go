package dht

import (
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/protocols/dht/seeds"
)

// TestReconfigure: what a reload changes holds for the next lookup, the bounds tell it, and seeds come and go.
func TestReconfigure(t *testing.T) {
	old, other, n := startNode(t, nil), startNode(t, nil), startNode(t, nil)
	cfg := DefaultConfig()
	cfg.Alpha, cfg.Beta, cfg.HedgeAfter, cfg.FindTimeout = 5, 4, 300*time.Millisecond, 9*time.Second
	cfg.Lookups, cfg.Dials, cfg.MaxRecords, cfg.Guard.Rate, cfg.Guard.Inflight = 11, 12, 13, 14, 15
	connected := func(of *node) func() bool {
		return func() bool {
			list := n.Seeds()
			return len(list) == 1 && list[0].ID == of.host.ID() && list[0].Connected
		}
	}
	for _, seed := range []*node{old, other} {
		cfg.Seeds = seeds.Config{Bootstrap: []string{seed.addr()}}
		n.Reconfigure(cfg)
		testkit.Eventually(t, "the seed of the reload is connected", connected(seed))
	}
	find := n.cfg.Load().findConfig()
	if find.Alpha != 5 || find.Beta != 4 || find.HedgeAfter != 300*time.Millisecond || find.Deadline != 9*time.Second {
		t.Errorf("%+v", find)
	}
	if n.store.most.total != 13 {
		t.Errorf("%d records", n.store.most.total)
	}
	testkit.WantCapacities(t, n.deps.Limits, map[string]int64{
		"dht.lookups": 11, "dht.dials": 12, "dht.rate": 14, "dht.inflight": 15,
	})
}
