package limits

import (
	"testing"

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
