package store

import (
	"context"
	"fmt"
	"math"

	"allium/internal/limits"
	"allium/protocols/status"
	"allium/store/meta"
)

// wholeWait is how long takeWhole waits in all.
const wholeWait = 3 * roomWait

// takeWhole takes n, which may be more than an eviction makes room for at once:
// it takes a part, so that the next eviction goes that much further, and so on.
// What never fits is refused before anything is evicted for it. All of it counts
// as unwritten, of which the disk knows nothing yet; giveWhole gives it back.
func (s *Store) takeWhole(ctx context.Context, n meta.Count) error {
	s.poll() // what the disk had a few seconds ago may be gone
	b := s.bounds()
	if n.Bytes > min(b.hard.Bytes, b.hard.local) {
		return s.fullError(n)
	}
	limited, over := context.WithTimeout(ctx, wholeWait)
	defer over()
	step := b.step()
	var taken meta.Count
	for taken != n {
		more := meta.Count{Objects: n.Objects - taken.Objects, Bytes: min(step, n.Bytes-taken.Bytes)}
		if err := s.takeRoom(limited, more); err != nil {
			s.giveWhole(taken, taken.Bytes)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case limited.Err() != nil:
				return s.fullError(n)
			case status.Of(err) == status.NoSpace:
				return fmt.Errorf("%s are needed as a whole: %w", limits.Bytes(n.Bytes).Human(), err)
			}
			return err
		}
		taken.Objects += more.Objects
		taken.Bytes += more.Bytes
		s.room.unwritten.Add(more.Bytes)
	}
	return nil
}

// giveWhole gives back what takeWhole took, of which unwritten bytes are not on
// the disk.
func (s *Store) giveWhole(n meta.Count, unwritten int64) {
	s.room.unwritten.Add(-unwritten)
	s.give(n)
}

// step is how much is asked for at a time, so that an eviction can make room
// for it.
func (b bounds) step() int64 {
	step := int64(math.MaxInt64)
	for _, d := range [][2]int64{{b.hard.Bytes, b.low.Bytes}, {b.hard.local, b.low.local}} {
		if d[0] != math.MaxInt64 {
			step = min(step, max(growth, (d[0]-d[1])/4))
		}
	}
	return step
}
