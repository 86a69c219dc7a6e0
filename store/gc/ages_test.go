package gc

import (
	"testing"
	"testing/synctest"
	"time"

	"allium/store/admission"
	"allium/store/meta"

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
			used := meta.Second(0)
			if age < uint32(h.now) {
				used = h.now - meta.Second(age)
			}
			n := rapid.Int64Range(0, 1000).Draw(r, "size")
			all = append(all, candidate{Entry: meta.Entry{Used: used}, charge: n, local: n / 2})
			h.add(all[len(all)-1])
			if b := h.bucket(used); h.newestUse(b) < used || h.bucket(h.newestUse(b)) != b {
				r.Fatalf("used %d is in bucket %d, which ends at %d", used, b, h.newestUse(b))
			}
		}
		count := meta.Count{
			Objects: rapid.Int64Range(0, 60).Draw(r, "objects"),
			Bytes:   rapid.Int64Range(0, 30_000).Draw(r, "bytes"),
		}
		need := amount{count, rapid.Int64Range(0, 15_000).Draw(r, "local")}
		pick := h.pickOldest(need)
		var got amount
		picked, left := len(h.amounts), []int{}
		for _, o := range all {
			b := h.bucket(o.Used)
			if !pick(o) {
				left = append(left, b)
				continue
			}
			got.add(o)
			picked = min(picked, b)
		}
		if len(left) > 0 && need.exceeds(got) {
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
		p := &dutyCycle{share: 0.25, urgent: func() bool { return hurry }, admission: admission.New()}
		for _, test := range []struct {
			hurry      bool
			work, rest time.Duration
		}{
			{false, 2 * time.Millisecond, 0},
			{false, 8 * time.Millisecond, 30 * time.Millisecond},
			{true, 10 * time.Millisecond, 0},
			{false, 20 * time.Millisecond, 60 * time.Millisecond},
		} {
			hurry = test.hurry
			if p.workingSince.IsZero() {
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
