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
