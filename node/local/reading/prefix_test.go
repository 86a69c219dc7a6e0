package reading

import (
	"context"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestCanonicalPrefixes: the beginning of an address stands for the one object that has it, and
// an error lists a bounded number of those that it may be.
func TestCanonicalPrefixes(t *testing.T) {
	t.Parallel()
	stored := make([]b3.Root, 0, 13) // bound: one, and twelve that begin alike
	stored = append(stored, b3.Sum([]byte("alone")))
	for i := range 12 {
		stored = append(stored, b3.Root{0xab, 0xab, 0xab, 0xab, byte(i)})
	}
	find := func(_ context.Context, digits string, most int) (found []b3.Root, _ error) {
		for _, r := range stored {
			if strings.HasPrefix(r.Hex(), digits) && len(found) < most {
				found = append(found, r)
			}
		}
		return found, nil
	}
	a := New(Options{Prefixed: find})
	one := stored[0]
	for text, want := range map[string]string{
		one.Hex()[:8]: one.String(), "b3:" + one.Hex()[:63] + "/a/b": one.String() + "/a/b",
		one.Hex(): one.String(), "blog.alice": "blog.alice", one.Hex()[:7]: one.Hex()[:7],
		"abababab05": stored[6].String(),
	} {
		if got, err := a.Canonical(t.Context(), text); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	_, err := a.Canonical(t.Context(), "abababab/x")
	if status.Of(err) != status.BadAddress || strings.Count(err.Error(), "\n  b3:") != maxCandidates ||
		!strings.HasSuffix(err.Error(), "and more") {
		t.Errorf("an ambiguous one: %v", err)
	}
	if _, err := a.Canonical(t.Context(), "00000000"); status.Of(err) != status.NotFound {
		t.Errorf("one of nothing: %v", err)
	}
	if _, err := New(Options{}).Canonical(t.Context(), "abababab"); status.Of(err) != status.BadAddress {
		t.Errorf("without a store: %v", err)
	}
}
