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
		{2, 1, 1, 1}, {512, 1, 1, 256}, {512, 1, 8, 256}, {512, 8, 1, 57}, {512, 8, 30, 57},
		{1024, 4, 20, 205}, {5, 8, 4, 1},
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
		p := limits.NewFairBytes[int](r, spec("places"), int64(n), int64(part))
		has, used := map[int]int{}, 0
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			k, more := rapid.IntRange(0, 5).Draw(t, "key"), rapid.IntRange(1, 3).Draw(t, "places")
			if rapid.Bool().Draw(t, "leave") {
				if has[k] >= more {
					p.LeaveN(k, int64(more))
					has[k] -= more
					used -= more
				}
			} else if want := mayTake(k, has[k], used, n, part, more); (p.EnterN(k, int64(more)) == nil) != want {
				t.Fatalf("key %d with %d of %d, %d of them taken, takes %d: want %t", k, has[k], n, used, more, want)
			} else if want {
				has[k] += more
				used += more
			}
			if got := r.Snapshot()[0].Current; got != int64(used) {
				t.Fatalf("%d are taken, it says %d", used, got)
			}
		}
	})
}

// mayTake says whether a key that has some of n places, of which used are taken, may take more of them one after
// another. A key without a place may take any that are free.
func mayTake(k, has, used, n, part, more int) bool {
	for newcomer := has == 0; more > 0; more-- {
		if used == n || k != 0 && !newcomer && has*part >= n-used {
			return false
		}
		has++
		used++
	}
	return true
}

// TestFairBytes: however much a key takes at a time, it has no more than its share, which is what it would have with
// one at a time, and a newcomer gets what is free.
func TestFairBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ n, part, each, first int64 }{
		{24, 2, 1, 8}, {24, 2, 4, 8}, {24, 2, 5, 5}, {24, 2, 7, 7}, {24, 2, 20, 20},
		{1000, 4, 1, 200}, {1000, 4, 7, 196},
		{1000, 4, 100, 200}, {1000, 4, 150, 150}, {10, 1, 3, 3}, {10, 1, 5, 5},
	} {
		p := limits.NewFairBytes[int](nil, spec("bytes"), test.n, test.part)
		got := int64(0)
		for p.EnterN(1, test.each) == nil {
			got += test.each
		}
		if got != test.first {
			t.Errorf("%+v: the first has %d", test, got)
		}
		wantLimit(t, p.EnterN(1, test.n-got), status.Quota, "bytes")
		wantLimit(t, p.EnterN(2, test.n-got+1), status.Busy, "bytes")
		if err := p.EnterN(2, test.n-got); err != nil {
			t.Errorf("%+v: the newcomer: %v", test, err)
		}
		p.LeaveN(1, got)
		if p.Free() != got || p.EnterN(3, got) != nil {
			t.Errorf("%+v: %d are free", test, p.Free())
		}
	}
}
