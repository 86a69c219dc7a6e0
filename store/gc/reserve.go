package gc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

const (
	// reserveWait is the longest time that a write waits for an eviction to make space.
	reserveWait = 5 * time.Second
	// maxReserveWaits bounds the writes that wait; further ones get no_space.
	maxReserveWaits = 1024
	// collectEvery is the interval at which Serve looks how full the store is.
	collectEvery = 5 * time.Second
	// evictBackoff is the time in which no eviction is tried after one that could not make enough
	// space. It ends early when a pin or a hold is removed.
	evictBackoff = 10 * time.Second
	// growth is the number of bytes that a stream of unknown length reserves at a time.
	growth = b3.GroupSize
)

// tryReserve reserves n if it fits the bounds, and reports whether it did.
func (a *Account) tryReserve(n meta.Count) bool {
	a.Take(n)
	if !a.usage().exceeds(a.bounds().hard) {
		return true
	}
	a.Release(n)
	return false
}

// Take reserves n without checking the bounds.
func (a *Account) Take(n meta.Count) {
	a.bytes.Add(n.Bytes)
	a.objects.Add(n.Objects)
}

// Release ends a reservation, as its object is now counted itself or is gone.
func (a *Account) Release(n meta.Count) {
	a.bytes.Add(-n.Bytes)
	a.objects.Add(-n.Objects)
}

// Reserve reserves n. When n does not fit, it asks for an eviction and waits for it, at
// most 5 s, and then returns no_space. Nothing was written by then.
func (a *Account) Reserve(ctx context.Context, n meta.Count) error {
	if err := a.ReserveUntil(ctx.Done(), n); !errors.Is(err, errCanceled) {
		return err
	}
	return ctx.Err()
}

// errCanceled reports that the caller stopped waiting.
var errCanceled = errors.New("canceled")

// ReserveUntil is Reserve for a caller who stops waiting when canceled is closed.
func (a *Account) ReserveUntil(canceled <-chan struct{}, n meta.Count) error {
	if a.tryReserve(n) {
		return nil
	}
	if a.poll(); a.tryReserve(n) {
		return nil
	}
	if err := a.deps.Backend.Failure(); err != nil {
		return err // nothing can be evicted either
	}
	if a.evictor.cannotEvict() {
		return a.fullError(n)
	}
	release, err := a.waiters.TryAcquire()
	if err != nil {
		return a.fullError(n)
	}
	defer release()
	enough, done := a.evictor.addWaiter()
	defer done()
	timer := time.NewTimer(reserveWait)
	defer timer.Stop()
	for {
		progress, ended, fellShort := a.evictor.watchProgress()
		if a.poll(); a.tryReserve(n) {
			return nil
		}
		// A collection that began after this wait did not help, or none can.
		if ended >= enough && (fellShort || a.evictor.cannotEvict() || !a.bounds().fitsAfterEviction(n)) {
			return a.fullError(n)
		}
		a.evictor.Wake()
		select {
		case <-progress:
		case <-timer.C:
			return a.fullError(n)
		case <-canceled:
			return errCanceled
		case <-a.deps.Admission.Stopping():
			return meta.ErrDraining
		}
	}
}

// fullError returns no_space for n more bytes. Its message says which bound is reached and
// what to do.
func (a *Account) fullError(n meta.Count) error {
	a.refused.Add(1)
	_, _, lastErr := a.evictor.latest()
	sp, use, hard := a.evictor.Space(), a.usage(), a.bounds().hard
	human := func(n int64) string { return limits.Bytes(n).Human() }
	var what string
	switch {
	case use.Objects+n.Objects > hard.Objects:
		what = fmt.Sprintf("the store has %d objects, and store.max_objects is %d", sp.Used.Objects, sp.Max.Objects)
	case a.memoryCap() > 0 && hard.Bytes < a.live.Load().MaxBytes, a.memoryCap() > 0 && a.live.Load().MaxBytes == 0:
		what = fmt.Sprintf("the store holds %s of %s (store.memory_bytes) and needs %s more",
			human(use.Bytes), human(hard.Bytes), human(n.Bytes))
	case a.live.Load().MaxBytes > 0 && use.local+n.Bytes <= hard.local:
		what = fmt.Sprintf("the store holds %s of %s (store.max_bytes) and needs %s more",
			human(use.Bytes), human(hard.Bytes), human(n.Bytes))
	default:
		what = fmt.Sprintf("the disk is full: %s are free, %s stay reserved (store.reserve_bytes), %s more are needed",
			human(max(sp.Free, 0)), human(sp.Reserve), human(n.Bytes))
	}
	fix := "unpin what you do not need; `allium gc plan` shows what holds what"
	if open, _ := a.evictor.deps.Damages().Open(); open > 0 {
		fix = "nothing is evicted: " + BlockedBy(open)
	} else if lastErr != nil && status.Of(lastErr) == status.Conflict {
		fix = lastErr.Error()
	}
	return status.Errorf(status.NoSpace, "%s; %s are pinned, %s could be evicted; %s",
		what, human(sp.Pinned.Bytes), human(sp.Evictable.Bytes), fix)
}

// Reader reserves space for a stream of unknown length while it is read. It is not safe for
// concurrent use.
type Reader struct {
	ctx      context.Context
	a        *Account
	r        io.Reader
	read     int64      // bytes read
	allowed  int64      // bytes that are reserved for the stream
	reserved meta.Count // what Release gives back
}

// Reader returns a reader of r that fails with no_space when the next bytes do not fit. It
// makes the first reservation before anything is read. The caller calls Release.
func (a *Account) Reader(ctx context.Context, r io.Reader) (*Reader, error) {
	g := &Reader{ctx: ctx, a: a, r: r}
	return g, g.grow()
}

// Read implements [io.Reader].
func (g *Reader) Read(p []byte) (int, error) {
	if g.read >= g.allowed {
		if err := g.grow(); err != nil {
			return 0, err
		}
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.allowed-g.read)])
	g.read += int64(n)
	return n, err
}

func (g *Reader) grow() error {
	more := meta.Count{Bytes: meta.PartialSize(growth)}
	if g.allowed == 0 {
		more.Objects = 1
	}
	if err := g.a.Reserve(g.ctx, more); err != nil {
		return err
	}
	g.reserved.Bytes += more.Bytes
	g.reserved.Objects += more.Objects
	g.allowed += growth
	return nil
}

// Release ends the reservation, as the object is now counted itself or is gone.
func (g *Reader) Release() { g.a.Release(g.reserved) }
