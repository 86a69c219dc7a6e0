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
	// reserveWait is how long a write waits for an eviction to make space.
	reserveWait = 5 * time.Second
	// maxReserveWaits is how many writes wait for it; the next get no_space.
	maxReserveWaits = 1024
	// collectEvery is how often the store looks how full it is.
	collectEvery = 5 * time.Second
	// vainPause is how long no eviction is tried after one that could not make
	// enough space, unless a pin or a hold is removed.
	vainPause = 10 * time.Second
	// growth is the step in which a stream of unknown length asks for space.
	growth = b3.GroupSize
)

// tryReserve reserves n within the bounds, or nothing.
func (a *Account) tryReserve(n meta.Count) bool {
	a.Take(n)
	if !a.usage().passes(a.bounds().hard) {
		return true
	}
	a.Release(n)
	return false
}

// Take reserves n whatever the bounds say.
func (a *Account) Take(n meta.Count) {
	a.bytes.Add(n.Bytes)
	a.objects.Add(n.Objects)
}

// Release ends a reservation: what it was for is counted with the objects now, or
// gone.
func (a *Account) Release(n meta.Count) {
	a.bytes.Add(-n.Bytes)
	a.objects.Add(-n.Objects)
}

// Reserve reserves n, at once or after an eviction that it asks for and waits for, 5 s
// at most. Otherwise it is no_space, before anything was written.
func (a *Account) Reserve(ctx context.Context, n meta.Count) error {
	if err := a.ReserveUntil(ctx.Done(), n); !errors.Is(err, errCanceled) {
		return err
	}
	return ctx.Err()
}

// errCanceled reports that the caller stopped waiting.
var errCanceled = errors.New("canceled")

// ReserveUntil is Reserve for a caller who stops waiting when gone is closed.
func (a *Account) ReserveUntil(gone <-chan struct{}, n meta.Count) error {
	if a.tryReserve(n) {
		return nil
	}
	if a.poll(); a.tryReserve(n) {
		return nil
	}
	if err := a.deps.Backend.Failure(); err != nil {
		return err // nothing is evicted either
	}
	if a.evictor.inVain() {
		return a.fullError(n)
	}
	release, err := a.waits.TryAcquire()
	if err != nil {
		return a.fullError(n)
	}
	defer release()
	enough, over := a.evictor.await()
	defer over()
	timer := time.NewTimer(reserveWait)
	defer timer.Stop()
	for {
		moved, ended, short := a.evictor.watch()
		if a.poll(); a.tryReserve(n) {
			return nil
		}
		// One that began after this wait could not help, or none can.
		if ended >= enough && (short || a.evictor.inVain() || !a.bounds().fits(n)) {
			return a.fullError(n)
		}
		a.evictor.Kick()
		select {
		case <-moved:
		case <-timer.C:
			return a.fullError(n)
		case <-gone:
			return errCanceled
		case <-a.deps.Admission.Stopping():
			return meta.ErrDraining
		}
	}
}

// fullError is the refusal of n more bytes, with what could be done.
func (a *Account) fullError(n meta.Count) error {
	a.refused.Add(1)
	a.evictor.mu.Lock()
	lastErr := a.evictor.lastErr
	a.evictor.mu.Unlock()
	sp, use, hard := a.evictor.Space(), a.usage(), a.bounds().hard
	human := func(n int64) string { return limits.Bytes(n).Human() }
	var what string
	switch {
	case use.Objects+n.Objects > hard.Objects:
		what = fmt.Sprintf("the store has %d objects, store.max_objects are %d", sp.Used.Objects, sp.Max.Objects)
	case a.memoryCap() > 0 && hard.Bytes < a.cfg.MaxBytes, a.memoryCap() > 0 && a.cfg.MaxBytes == 0:
		what = fmt.Sprintf("the store holds %s of %s (store.memory_bytes), and %s more are asked for", human(use.Bytes), human(hard.Bytes), human(n.Bytes))
	case a.cfg.MaxBytes > 0 && use.local+n.Bytes <= hard.local:
		what = fmt.Sprintf("the store holds %s of %s (store.max_bytes), and %s more are asked for", human(use.Bytes), human(hard.Bytes), human(n.Bytes))
	default:
		what = fmt.Sprintf("the disk is full: %s are free, %s stay reserved (store.reserve_bytes), and %s more are asked for", human(max(sp.Free, 0)), human(sp.Reserve), human(n.Bytes))
	}
	fix := "unpin what you do not need, `allium gc plan` shows what holds what"
	if open, _ := a.deps.Backend.Damages().Open(); open > 0 {
		fix = "nothing is evicted: " + BlockedBy(open)
	} else if lastErr != nil && status.Of(lastErr) == status.Conflict {
		fix = lastErr.Error()
	}
	return status.Errorf(status.NoSpace, "store: %s; %s are pinned, %s could be evicted; %s", what, human(sp.Pinned.Bytes), human(sp.Evictable.Bytes), fix)
}

// Reader reserves space as a stream of unknown length comes in.
type Reader struct {
	ctx context.Context
	a   *Account
	r   io.Reader
	got int64      // bytes read
	may int64      // bytes that there is space for
	has meta.Count // reserved
}

// Reader returns r, which ends with no_space when its next bytes have no space. The
// caller releases it. The first reservation is made now, before anything is read.
func (a *Account) Reader(ctx context.Context, r io.Reader) (*Reader, error) {
	g := &Reader{ctx: ctx, a: a, r: r}
	return g, g.grow()
}

// Read implements [io.Reader].
func (g *Reader) Read(p []byte) (int, error) {
	if g.got >= g.may {
		if err := g.grow(); err != nil {
			return 0, err
		}
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.may-g.got)])
	g.got += int64(n)
	return n, err
}

func (g *Reader) grow() error {
	more := meta.Count{Bytes: meta.PartialSize(growth)}
	if g.may == 0 {
		more.Objects = 1
	}
	if err := g.a.Reserve(g.ctx, more); err != nil {
		return err
	}
	g.has.Bytes += more.Bytes
	g.has.Objects += more.Objects
	g.may += growth
	return nil
}

// Release ends the reservation: the object is counted where it is now, or gone.
func (g *Reader) Release() { g.a.Release(g.has) }
