package b3

import (
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/status"
)

// TestWalkLen is a property: the length is that of the items of the walk.
func TestWalkLen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 70*GroupSize+1).Draw(t, "size")
		var ranges []Range
		for range rapid.IntRange(0, 4).Draw(t, "ranges") {
			start := rapid.Int64Range(0, size+GroupSize).Draw(t, "start")
			end := rapid.Int64Range(start, size+GroupSize).Draw(t, "end")
			if rapid.Bool().Draw(t, "to the end") {
				end = -1
			}
			ranges = append(ranges, Range{start, end})
		}
		s, err := spans(size, ranges)
		if err != nil {
			t.Fatal(err)
		}
		var want int64
		for w := newWalk(Root{}, size, s); ; w.assumeNext() {
			item, more := w.Next()
			if !more {
				break
			}
			want += int64(item.Len)
		}
		if got, err := WalkLen(size, ranges); err != nil || got != want {
			t.Errorf("%d (%v), want %d", got, err, want)
		}
	})
}

// assumeNext moves on without proof: only lengths are looked at.
func (w *Walk) assumeNext() {
	if w.next.Parent {
		w.path = append(w.path, parent{lo: w.lo, hi: w.hi})
	} else if w.spans[0].lo++; w.spans[0].lo == w.spans[0].hi {
		w.spans = w.spans[1:]
	}
	w.advance()
}

// TestWalkLenLargest: no size overflows, and none is walked.
func TestWalkLenLargest(t *testing.T) {
	const parents = MaxSize/GroupSize - 1
	if got, err := WalkLen(MaxSize, nil); err != nil || got != MaxSize+parents*ParentSize {
		t.Errorf("the whole: %d (%v)", got, err)
	}
	if got, err := WalkLen(MaxSize, []Range{{MaxSize / 2, MaxSize/2 + 1}}); err != nil ||
		got != GroupSize+maxDepth*ParentSize {
		t.Errorf("one byte: %d (%v)", got, err)
	}
	for _, size := range []int64{-1, MaxSize + 1} {
		if _, err := WalkLen(size, nil); status.Of(err) != status.Upstream {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := WalkLen(1, []Range{{2, 1}}); status.Of(err) != status.BadRange {
		t.Errorf("a backward range: %v", err)
	}
}
