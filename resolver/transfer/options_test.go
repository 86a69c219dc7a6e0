package transfer

import (
	"errors"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	root := b3.Sum(nil)
	for _, c := range []struct {
		start, end, size int64
		from, to         int64 // −1: bad_range
	}{
		{0, ToEnd, 100, 0, 100},
		{10, 20, 100, 10, 20},
		{10, 200, 100, 10, 100},
		{-30, ToEnd, 100, 70, 100},
		{-300, ToEnd, 100, 0, 100},
		{50, 50, 10, 0, 0},
		{0, ToEnd, 0, 0, 0},
		{100, ToEnd, 100, -1, 0},
		{101, 102, 100, -1, 0},
	} {
		o := Options{Start: c.start, End: c.end}
		if err := o.Check(root); err != nil {
			t.Errorf("[%d, %d): %v", c.start, c.end, err)
		}
		from, to, err := o.Within(root, c.size)
		if c.from < 0 {
			if e, ok := errors.AsType[*RangeError](err); !ok || e.Size != c.size || status.Of(err) != status.BadRange {
				t.Errorf("[%d, %d) of %d: %v", c.start, c.end, c.size, err)
			}
			continue
		}
		if err != nil || from != c.from || to != c.to {
			t.Errorf("[%d, %d) of %d: [%d, %d), %v", c.start, c.end, c.size, from, to, err)
		}
	}
	for _, o := range []Options{{Start: 5, End: 4}, {Start: -5, End: 4}, {Start: 0, End: -2}} {
		if err := o.Check(root); status.Of(err) != status.BadRange {
			t.Errorf("[%d, %d) is a range: %v", o.Start, o.End, err)
		}
	}
}
