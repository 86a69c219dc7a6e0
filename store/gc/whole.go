package gc

import (
	"context"
	"fmt"

	"allium/internal/limits"
	"allium/protocols/status"
	"allium/store/meta"
)

// wholeWait is how long ReserveWhole waits in all.
const wholeWait = 3 * reserveWait

// ReserveWhole reserves n, which may be more than an eviction makes space for at once:
// it reserves a part, so that the next eviction goes that much further, and so on.
// What never fits is refused before anything is evicted for it. All of it counts
// as unwritten, of which the disk knows nothing yet; ReleaseWhole ends it.
func (a *Account) ReserveWhole(ctx context.Context, n meta.Count) error {
	a.poll() // what the disk had a few seconds ago may be gone
	b := a.bounds()
	if n.Bytes > min(b.hard.Bytes, b.hard.local) {
		return a.fullError(n)
	}
	limited, over := context.WithTimeout(ctx, wholeWait)
	defer over()
	step := b.step()
	var taken meta.Count
	for taken != n {
		more := meta.Count{Objects: n.Objects - taken.Objects, Bytes: min(step, n.Bytes-taken.Bytes)}
		if err := a.Reserve(limited, more); err != nil {
			a.ReleaseWhole(taken, taken.Bytes)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case limited.Err() != nil:
				return a.fullError(n)
			case status.Of(err) == status.NoSpace:
				return fmt.Errorf("%s are needed as a whole: %w", limits.Bytes(n.Bytes).Human(), err)
			}
			return err
		}
		taken.Objects += more.Objects
		taken.Bytes += more.Bytes
		a.unwritten.Add(more.Bytes)
	}
	return nil
}

// ReleaseWhole ends what ReserveWhole reserved, of which unwritten bytes are not on
// the disk.
func (a *Account) ReleaseWhole(n meta.Count, unwritten int64) {
	a.unwritten.Add(-unwritten)
	a.Release(n)
}

// TakeWhole is ReserveWhole whatever the bounds say: it was reserved before a restart.
func (a *Account) TakeWhole(n meta.Count, unwritten int64) {
	a.Take(n)
	a.unwritten.Add(unwritten)
}

// Wrote says that n more bytes of what ReserveWhole reserved are on the disk; fewer,
// when n is negative.
func (a *Account) Wrote(n int64) { a.unwritten.Add(-n) }
