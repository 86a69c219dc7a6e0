package testkit

import (
	"testing"

	"allium/internal/limits"
)

// WantCapacities fails unless the registry lists each limit in want with that capacity.
func WantCapacities(t testing.TB, r *limits.Registry, want map[string]int64) {
	t.Helper()
	found := 0
	for _, l := range r.Snapshot() {
		size, ok := want[l.Name]
		if !ok {
			continue
		}
		if found++; l.Capacity != size {
			t.Errorf("%s is %d, want %d", l.Name, l.Capacity, size)
		}
	}
	if found != len(want) {
		t.Errorf("%d limits are listed of %v", found, want)
	}
}
