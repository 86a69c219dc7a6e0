package partial

import (
	"testing"

	"pgregory.net/rapid"

	"allium/store/meta"
)

// TestBitmapRuns compares a bitmap with a set of numbers.
func TestBitmapRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 3*meta.PageBits + 100
		at := rapid.OneOf(rapid.Int64Range(0, 200), rapid.Int64Range(meta.PageBits-70, meta.PageBits+70),
			rapid.Int64Range(0, limit-1))
		var b Bitmap
		set := map[int64]bool{}
		first := func(from, to int64, in bool) int64 {
			for i := from; i < to; i++ {
				if set[i] == in {
					return i
				}
			}
			return to
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				from, n := at.Draw(t, "i"), rapid.Int64Range(1, 200).Draw(t, "n")
				for i := from; i < min(from+n, limit); i++ {
					if b.Add(i) == set[i] {
						t.Fatalf("adding %d", i)
					}
					set[i] = true
				}
			},
			"remove": func(t *rapid.T) {
				i := at.Draw(t, "i")
				if b.Remove(i) != set[i] {
					t.Fatalf("removing %d", i)
				}
				delete(set, i)
			},
			"copy": func(t *rapid.T) {
				var c Bitmap
				cut := at.Draw(t, "limit")
				for n := range int64(limit/meta.PageBits + 1) {
					c.AddPage(n, b.Page(n), cut)
				}
				for i := range int64(limit) {
					if c.Has(i) != (set[i] && i < cut) {
						t.Fatalf("%d of a copy up to %d", i, cut)
					}
				}
			},
			"": func(t *rapid.T) {
				if b.Count() != int64(len(set)) {
					t.Fatalf("%d are counted, want %d", b.Count(), len(set))
				}
				from, to := at.Draw(t, "from"), at.Draw(t, "to")
				if from > to {
					from, to = to, from
				}
				n := int64(0)
				for i := from; i < to; i++ {
					if set[i] {
						n++
					}
				}
				if got := b.CountIn(from, to); got != n {
					t.Fatalf("%d are counted in [%d, %d), want %d", got, from, to, n)
				}
				if got, want := b.FirstPresent(from, to), first(from, to, true); got != want {
					t.Fatalf("the first in [%d, %d) is %d, want %d", from, to, got, want)
				}
				if got, want := b.FirstAbsent(from, to), first(from, to, false); got != want {
					t.Fatalf("the first not in [%d, %d) is %d, want %d", from, to, got, want)
				}
			},
		})
	})
}

// TestBitmapFar looks through a claim of more pages than anybody could hold.
func TestBitmapFar(t *testing.T) {
	t.Parallel()
	var b Bitmap
	const far = 1 << 45
	b.Add(5)
	b.Add(far)
	if got := b.FirstPresent(6, far+10); got != far {
		t.Errorf("the member after 6 is %d", got)
	}
	if got := b.FirstPresent(far+1, far+1<<40); got != far+1<<40 {
		t.Errorf("the member after the last is %d", got)
	}
	if got := b.FirstAbsent(far, far+10); got != far+1 {
		t.Errorf("the hole is %d", got)
	}
}

func TestBitmap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b Bitmap
		want := map[int64]bool{}
		number := rapid.OneOf(rapid.Int64Range(0, 5000), rapid.Int64Range(0, 1<<46))
		for _, i := range rapid.SliceOf(number).Draw(t, "numbers") {
			if b.Add(i) == want[i] {
				t.Fatalf("%d: add does not say whether it is new", i)
			}
			want[i] = true
			if !b.Has(i) || b.Has(i+1) != want[i+1] {
				t.Fatalf("%d is not in", i)
			}
		}
		if b.Count() != int64(len(want)) || len(b.pages) > len(want) {
			t.Fatalf("%d numbers on %d pages, want %d", b.Count(), len(b.pages), len(want))
		}
	})
}
