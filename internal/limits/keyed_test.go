package limits

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/protocols/status"
)

// TestKeyedGate: one key's places are counted apart from another's, and forgotten
// when they are given back.
func TestKeyedGate(t *testing.T) {
	t.Parallel()
	registry := NewRegistry(nil)
	c := NewKeyedGate[string](registry, Spec{Name: "each"}, 1)
	leave, err := c.Enter("a")
	if _, again := c.Enter("a"); err != nil || status.Of(again) != status.Busy {
		t.Errorf("a second of one: %v, %v", err, again)
	}
	if s := registry.Snapshot(); s[0].Current != 1 || s[0].Rejected != 1 {
		t.Errorf("%+v", s)
	}
	leave()
	if len(c.gates) != 0 || registry.Snapshot()[0].Current != 0 {
		t.Errorf("%d entries left, %+v", len(c.gates), registry.Snapshot())
	}
}

// TestKeyedGateOf: a permit of all is taken with that of the key, and both are free after leave, and after a refusal.
func TestKeyedGateOf(t *testing.T) {
	registry := NewRegistry(nil)
	each := NewKeyedGate[string](registry, Spec{Name: "each"}, 2)
	all := registry.NewGate(Spec{Name: "all"}, 1, 0)
	leave, err := each.EnterOf("a", all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := each.EnterOf("b", all); status.Of(err) != status.Busy {
		t.Errorf("beyond the bound of all: %v", err)
	}
	if len(each.gates) != 1 {
		t.Errorf("%d keys are remembered", len(each.gates))
	}
	leave()
	if len(each.gates) != 0 || all.Enter() != nil {
		t.Errorf("after leave: %d keys, or a permit is kept", len(each.gates))
	}
}

// TestKeyedGateForgets: while many requests wait, leave and give up, no key has more places than it may, and in the
// end no key is remembered and nothing is counted.
func TestKeyedGateForgets(t *testing.T) {
	t.Parallel()
	const most = 2
	r := NewRegistry(nil)
	c, line := NewKeyedGate[int](r, Spec{Name: "each"}, most), r.NewGate(Spec{Name: "line"}, 100, 0)
	var in [3]atomic.Int64
	var users sync.WaitGroup
	for range 12 {
		users.Go(func() {
			for range 300 {
				key := rand.IntN(len(in))
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Microsecond))
				if leave, err := c.Await(ctx, key, line); err == nil {
					if n := in[key].Add(1); n > most {
						t.Errorf("a key has %d places", n)
					}
					time.Sleep(time.Microsecond)
					in[key].Add(-1)
					leave()
				}
				cancel()
			}
		})
	}
	users.Wait()
	if s := r.Snapshot(); len(c.gates) != 0 || s[0].Current != 0 || s[1].Current != 0 || s[0].Rejected == 0 {
		t.Errorf("%d keys are remembered, %+v", len(c.gates), s)
	}
}
