package store

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestHistogram: what is picked makes the need, where there is as much, and
// nothing older stays.
func TestHistogram(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		h := &histogram{now: 30_000_000}
		ages := rapid.SliceOfN(rapid.Uint32Range(0, 40_000_000), 1, 50).Draw(r, "ages")
		var all []candidate
		for _, age := range ages {
			used := second(0)
			if age < uint32(h.now) {
				used = h.now - second(age)
			}
			n := rapid.Int64Range(0, 1000).Draw(r, "size")
			all = append(all, candidate{entry: entry{used: used}, charge: n, local: n / 2})
			h.note(all[len(all)-1])
			if b := h.bucket(used); h.latest(b) < used || h.bucket(h.latest(b)) != b {
				r.Fatalf("used %d is in bucket %d, which ends at %d", used, b, h.latest(b))
			}
		}
		need := amount{GCCount{rapid.Int64Range(0, 60).Draw(r, "objects"), rapid.Int64Range(0, 30_000).Draw(r, "bytes")}, rapid.Int64Range(0, 15_000).Draw(r, "local")}
		pick := h.oldest(need)
		var got amount
		picked, left := len(h.count), []int{}
		for _, o := range all {
			b := h.bucket(o.used)
			if !pick(o) {
				left = append(left, b)
				continue
			}
			got.add(o)
			picked = min(picked, b)
		}
		if len(left) > 0 && need.passes(got) {
			r.Fatalf("%+v were picked of %+v, and %d objects stay", got, need, len(left))
		}
		for _, b := range left {
			if b > picked {
				r.Fatalf("bucket %d stays, and of %d something goes", b, picked)
			}
		}
		if need == (amount{}) && got != (amount{}) {
			r.Fatal("picked without need")
		}
	})
}

// TestPacer: work takes its share of the time, and all of it in a hurry.
func TestPacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hurry := false
		p := &pacer{duty: 0.25, hurry: func() bool { return hurry }, stop: make(chan struct{})}
		for _, test := range []struct {
			hurry      bool
			work, rest time.Duration
		}{{false, 2 * time.Millisecond, 0}, {false, 8 * time.Millisecond, 30 * time.Millisecond}, {true, 10 * time.Millisecond, 0}, {false, 20 * time.Millisecond, 60 * time.Millisecond}} {
			hurry = test.hurry
			if p.since.IsZero() {
				if err := p.rest(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(test.work)
			begun := time.Now()
			if err := p.rest(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begun); got != test.rest {
				t.Errorf("a rest of %s after %s of work, hurry %t, want %s", got, test.work, test.hurry, test.rest)
			}
		}
	})
}

// TestWastedBytes: what compaction gives back, more of it when space is short.
func TestWastedBytes(t *testing.T) {
	t.Parallel()
	var u usage
	u.reset(map[uint64]segmentUse{1: {size: 100, live: 90}, 2: {size: 100, live: 50, tombs: 20}, 3: {size: 100, live: 40}, 4: {size: 100}})
	u.begin(4, 100, 100, 1<<40)
	if n := u.wastedBytes(false); n != 60 {
		t.Errorf("%d bytes come back, want 60", n)
	}
	if n := u.wastedBytes(true); n != 90 {
		t.Errorf("%d bytes come back when space is short, want 90", n)
	}
	if num := u.worst(true); num != 3 {
		t.Errorf("segment %d is the worst, want 3", num)
	}
	u.retire(3)
	if a, b := u.worst(false), u.worst(true); a != 0 || b != 2 {
		t.Errorf("segments %d and %d are the worst, want none and 2", a, b)
	}
}
