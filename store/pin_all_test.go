package store_test

import (
	"fmt"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestPinAll: pins that are set together each have an outcome of their own, and those without an error outlast a
// restart.
func TestPinAll(t *testing.T) {
	t.Parallel()
	for _, quotas := range [][]string{nil, {"small=100B"}} {
		backends(t, func(t *testing.T, cfg store.Config) {
			cfg.Quotas = quotas
			s, stop := storetest.Start(t, cfg, store.Deps{})
			var pins []store.Pinning
			var want []status.Outcome
			add := func(root b3.Root, label string, outcome status.Outcome) {
				pins = append(pins, store.Pinning{Root: root, Options: store.PinOptions{
					Label: label, Target: meta.Target{Copies: 3, Seq: uint64(len(pins) + 1)},
				}})
				want = append(want, outcome)
			}
			small := status.OK
			if quotas != nil {
				small = status.Quota
			}
			for i := range 20 {
				root := storetest.Put(t, s, fmt.Appendf(nil, "%0100d", i))
				add(root, "x", status.OK)
				add(b3.Root{byte(i)}, "x", status.NotFound)
				if i == 10 {
					add(root, "x", status.OK) // the same pin with a later target, and with an earlier one
					add(root, "x", status.OK)
					pins[len(pins)-1].Target.Seq = 1
					add(root, strings.Repeat("y", meta.MaxLabel+1), status.BadRequest)
				}
				if i == 15 {
					add(root, "small", status.OK)
				}
				if i == 16 {
					add(root, "small", small)
				}
			}
			for i, err := range s.PinAll(t.Context(), pins) {
				if status.Of(err) != want[i] {
					t.Errorf("pin %d of %d: %v, want %s", i, len(pins), err, want[i])
				}
			}
			if len(s.PinAll(t.Context(), nil)) != 0 {
				t.Error("no pins have errors")
			}
			set := map[string]uint64{} // the latest target of each pin
			for i, p := range pins {
				if want[i] == status.OK {
					key := p.Root.String() + p.Label
					set[key] = max(set[key], p.Target.Seq)
				}
			}
			check := func(s *store.Store) {
				found := 0
				for p, err := range s.Pins(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if found++; set[p.Root.String()+p.Label] != p.Target.Seq {
						t.Errorf("a pin of %s has the target %+v", p.Root, p.Target)
					}
				}
				if found != len(set) {
					t.Errorf("%d pins, want %d", found, len(set))
				}
			}
			check(s)
			if cfg.Backend != store.BackendMemory {
				stop()
				s, _ = storetest.Start(t, cfg, store.Deps{})
				check(s)
			}
		})
	}
}
