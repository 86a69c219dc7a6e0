package gc

import (
	"context"
	"fmt"

	"allium/internal/limits"
	"allium/protocols/status"
	"allium/store/meta"
)

// wholeWait bounds how long ReserveUnwritten waits in all.
const wholeWait = 3 * reserveWait

// ReserveUnwritten reserves n, which may be more than one eviction makes space for: it reserves
// step by step, so that each eviction goes further. It refuses at once what can never fit.
// The bytes count as unwritten: the disk does not show them as used yet. NoteWritten and
// ReleaseUnwritten end that.
func (a *Account) ReserveUnwritten(ctx context.Context, n meta.Count) error {
	a.poll() // the last poll may be some seconds old
	b := a.bounds()
	if n.Bytes > min(b.hard.Bytes, b.hard.local) {
		return a.fullError(n)
	}
	limited, cancel := context.WithTimeout(ctx, wholeWait)
	defer cancel()
	step := b.reserveStep()
	var taken meta.Count
	for taken != n {
		more := meta.Count{Objects: n.Objects - taken.Objects, Bytes: min(step, n.Bytes-taken.Bytes)}
		if err := a.Reserve(limited, more); err != nil {
			a.ReleaseUnwritten(taken, taken.Bytes)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case limited.Err() != nil:
				return a.fullError(n)
			case status.Of(err) == status.NoSpace:
				return fmt.Errorf("reserve %s as a whole: %w", limits.Bytes(n.Bytes).Human(), err)
			}
			return err
		}
		taken.Objects += more.Objects
		taken.Bytes += more.Bytes
		a.unwritten.Add(more.Bytes)
	}
	return nil
}

// ReleaseUnwritten ends a reservation of ReserveUnwritten. unwritten of its bytes are not on the
// disk.
func (a *Account) ReleaseUnwritten(n meta.Count, unwritten int64) {
	a.unwritten.Add(-unwritten)
	a.Release(n)
}

// TakeUnwritten is ReserveUnwritten without a check of the bounds, for what was reserved before a
// restart.
func (a *Account) TakeUnwritten(n meta.Count, unwritten int64) {
	a.Take(n)
	a.unwritten.Add(unwritten)
}

// NoteWritten notes that n more bytes of what ReserveUnwritten reserved are on the disk, or
// fewer when n is negative.
func (a *Account) NoteWritten(n int64) { a.unwritten.Add(-n) }
