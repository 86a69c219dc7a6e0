package node

import (
	"testing"

	"allium/node/config"
	"allium/node/p2p"
	"allium/store"
)

// TestRepairsAreOff: a node without a rate, without a disk or without content
// repairs nothing by itself.
func TestRepairsAreOff(t *testing.T) {
	cfg := func(p p2p.Profile, change func(*store.Config)) config.Config {
		c := config.Default(p)
		if change != nil {
			change(&c.Store)
		}
		return c
	}
	for name, c := range map[string]config.Config{
		"no rate": cfg(p2p.Desktop, func(s *store.Config) { s.RepairRate = 0 }),
		"in RAM":  cfg(p2p.Micronode, nil),
		"memory":  cfg(p2p.Desktop, func(s *store.Config) { s.Backend = store.BackendMemory }),
		"a seed":  cfg(p2p.Seed, nil),
	} {
		t.Run(name, func(t *testing.T) {
			n, err := New(t.TempDir(), c, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			if !n.repairs.Off() {
				t.Error("it repairs by itself")
			}
			if err := n.startRepairs(t.Context()); err != nil {
				t.Error(err)
			}
			if left := n.services.Stop(t.Context()); len(left) != 0 {
				t.Error(left)
			}
		})
	}
	n, err := New(t.TempDir(), cfg(p2p.Desktop, nil), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if n.repairs.Off() {
		t.Error("a node with a disk repairs nothing")
	}
}
