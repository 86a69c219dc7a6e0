package limits_test

import (
	"testing"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/status"
)

// TestFairGate: a key alone gets its part of the places, keys that take all they
// can leave one for a newcomer, and what is not shared out may take the rest.
func TestFairGate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ n, part, keys, first int }{
		{2, 1, 1, 1}, {512, 1, 1, 256}, {512, 1, 8, 256}, {512, 8, 1, 57}, {512, 8, 30, 57}, {1024, 4, 20, 205}, {5, 8, 4, 1},
	} {
		p := limits.NewFairGate[int](nil, spec("places"), int64(test.n), int64(test.part))
		taken := 0
		for key := range test.keys {
			got := 0
			for p.Enter(key+1) == nil {
				got++
			}
			if taken += got; key == 0 && got != test.first {
				t.Errorf("%+v: the first has %d", test, got)
			}
		}
		wantLimit(t, p.Enter(1), status.Quota, "places")
		if err := p.Enter(1000); err != nil {
			t.Errorf("%+v: a newcomer beside %d places taken: %v", test, taken, err)
		}
		rest := 0
		for p.Enter(0) == nil {
			rest++
		}
		if taken+1+rest != test.n || p.Free() != 0 {
			t.Errorf("%+v: %d + 1 + %d places", test, taken, rest)
		}
		wantLimit(t, p.Enter(0), status.Busy, "places")
		wantLimit(t, p.Enter(1001), status.Busy, "places")
	}
}

// TestFairGateCount drives FairGate and a plain map side by side.
func TestFairGateCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, part := rapid.IntRange(1, 20).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "part")
		r := limits.NewRegistry(nil)
		p := limits.NewFairGate[int](r, spec("places"), int64(n), int64(part))
		has, used := map[int]int{}, 0
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			k := rapid.IntRange(0, 5).Draw(t, "key")
			if rapid.Bool().Draw(t, "leave") {
				if has[k] > 0 {
					p.Leave(k)
					has[k]--
					used--
				}
			} else if want := used < n && (k == 0 || has[k]*part < n-used); (p.Enter(k) == nil) != want {
				t.Fatalf("key %d with %d of %d, %d of them taken: want %t", k, has[k], n, used, want)
			} else if want {
				has[k]++
				used++
			}
			if got := r.Snapshot()[0].Current; got != int64(used) {
				t.Fatalf("%d are taken, it says %d", used, got)
			}
		}
	})
}
