package store

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBitmapRuns compares a bitmap with a set of numbers.
func TestBitmapRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 3*pageBits + 100
		at := rapid.OneOf(rapid.Int64Range(0, 200), rapid.Int64Range(pageBits-70, pageBits+70), rapid.Int64Range(0, limit-1))
		var b bitmap
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
					if b.add(i) == set[i] {
						t.Fatalf("adding %d", i)
					}
					set[i] = true
				}
			},
			"remove": func(t *rapid.T) {
				i := at.Draw(t, "i")
				if b.remove(i) != set[i] {
					t.Fatalf("removing %d", i)
				}
				delete(set, i)
			},
			"copy": func(t *rapid.T) {
				var c bitmap
				cut := at.Draw(t, "limit")
				for n := range int64(limit/pageBits + 1) {
					c.put(n, b.page(n), cut)
				}
				for i := range int64(limit) {
					if c.has(i) != (set[i] && i < cut) {
						t.Fatalf("%d of a copy up to %d", i, cut)
					}
				}
			},
			"": func(t *rapid.T) {
				if b.count() != int64(len(set)) {
					t.Fatalf("%d are counted, want %d", b.count(), len(set))
				}
				from, to := at.Draw(t, "from"), at.Draw(t, "to")
				if from > to {
					from, to = to, from
				}
				if got, want := b.member(from, to), first(from, to, true); got != want {
					t.Fatalf("the first in [%d, %d) is %d, want %d", from, to, got, want)
				}
				if got, want := b.hole(from, to), first(from, to, false); got != want {
					t.Fatalf("the first not in [%d, %d) is %d, want %d", from, to, got, want)
				}
			},
		})
	})
}

// TestBitmapFar looks through a claim of more pages than anybody could hold.
func TestBitmapFar(t *testing.T) {
	t.Parallel()
	var b bitmap
	const far = 1 << 45
	b.add(5)
	b.add(far)
	if got := b.member(6, far+10); got != far {
		t.Errorf("the member after 6 is %d", got)
	}
	if got := b.member(far+1, far+1<<40); got != far+1<<40 {
		t.Errorf("the member after the last is %d", got)
	}
	if got := b.hole(far, far+10); got != far+1 {
		t.Errorf("the hole is %d", got)
	}
}
