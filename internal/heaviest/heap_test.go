package heaviest

import (
	"testing"

	"pgregory.net/rapid"
)

type item struct {
	weight int64
	at     int
}

func (i *item) Weight() int64 { return i.weight }
func (i *item) Place() *int   { return &i.at }

// TestHeap: after any changes the heaviest is first, and every item knows its place.
func TestHeap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[*item]
		var all []*item
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch do := rapid.IntRange(0, 3).Draw(t, "do"); {
			case do < 2 || len(all) == 0:
				x := &item{weight: rapid.Int64Range(0, 9).Draw(t, "weight")}
				all = append(all, x)
				h.Push(x)
			case do == 2:
				x := rapid.SampledFrom(all).Draw(t, "of")
				x.weight = rapid.Int64Range(0, 9).Draw(t, "weight")
				h.Fix(x)
			default:
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				h.Remove(all[i])
				all = append(all[:i], all[i+1:]...)
			}
			if len(h) != len(all) {
				t.Fatalf("%d items, want %d", len(h), len(all))
			}
			for _, x := range all {
				if h[x.at] != x || x.weight > h[0].weight {
					t.Fatalf("%v is not where it says, or heavier than the first, %v", x, h[0])
				}
			}
		}
	})
}
