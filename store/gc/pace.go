package gc

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"allium/store/admission"
	"allium/store/meta"
)

// slice is how long a collection works before it rests.
const slice = 5 * time.Millisecond

// pacer makes work take its share of the time and no more.
type pacer struct {
	duty      float64
	hurry     func() bool // somebody waits for the work: no rests
	admission *admission.Control
	since     time.Time
	ticks     atomic.Int64 // rests, for tests
}

// rest returns soon while the slice lasts, and else after as much rest as the
// duty asks for. Its error is that of what ended: ctx or the store.
func (p *pacer) rest(ctx context.Context) error {
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	worked := now.Sub(p.since)
	if worked < slice {
		return p.admission.Alive(ctx)
	}
	p.ticks.Add(1)
	if p.duty >= 1 || p.hurry() {
		runtime.Gosched()
		p.since = now
		return p.admission.Alive(ctx)
	}
	timer := time.NewTimer(time.Duration(float64(worked) * (1/p.duty - 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.admission.Stopping():
		return meta.ErrDraining
	}
	p.since = time.Now()
	return nil
}
