package linked

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type item struct {
	id   int
	node Node[item]
}

// TestList compares a list with a slice.
func TestList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l List[item]
		var want []*item // the oldest first
		for id := range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(want) > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				x := want[i]
				l.Remove(&x.node)
				want = slices.Delete(want, i, i+1)
				if rapid.Bool().Draw(t, "again") {
					l.Push(&x.node, x)
					want = append(want, x)
				}
			} else {
				x := &item{id: id}
				l.Push(&x.node, x)
				want = append(want, x)
			}
			var oldest *item
			if len(want) > 0 {
				oldest = want[0]
			}
			if got := slices.Collect(l.FromOldest); !slices.Equal(got, want) ||
				l.Len() != len(want) || l.Oldest() != oldest {
				t.Fatalf("%d of %d values, the oldest is %p, want %p", l.Len(), len(want), l.Oldest(), oldest)
			}
		}
	})
}

// TestListAllocates nothing.
func TestListAllocates(t *testing.T) {
	var l List[item]
	x := &item{}
	if n := testing.AllocsPerRun(100, func() {
		l.Push(&x.node, x)
		l.Remove(&x.node)
	}); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}
