package gc

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"allium/store/admission"
	"allium/store/meta"
)

// workSlice is the time that a collection works before it rests.
const workSlice = 5 * time.Millisecond

// dutyCycle limits work to a share of the time. It is for one goroutine.
type dutyCycle struct {
	share        float64
	urgent       func() bool // reports that a write waits for the work: no rests
	admission    *admission.Control
	workingSince time.Time
	rests        atomic.Int64 // so far, for tests
}

// newDuty returns a duty cycle of the share that is configured, or one without rests.
func (t *trees) newDuty(fast bool, urgent func() bool) dutyCycle {
	share := t.deps.Account.live.Load().Duty
	if fast {
		share = 1
	}
	return dutyCycle{share: share, urgent: urgent, admission: t.deps.Admission}
}

// rest returns at once during a work slice, and afterwards rests as long as the share asks.
// It returns the error of ctx, or draining when the store closes.
func (p *dutyCycle) rest(ctx context.Context) error {
	now := time.Now()
	if p.workingSince.IsZero() {
		p.workingSince = now
	}
	worked := now.Sub(p.workingSince)
	if worked < workSlice {
		return p.admission.Alive(ctx)
	}
	p.rests.Add(1)
	if p.share >= 1 || p.urgent() {
		runtime.Gosched()
		p.workingSince = now
		return p.admission.Alive(ctx)
	}
	timer := time.NewTimer(time.Duration(float64(worked) * (1/p.share - 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.admission.Stopping():
		return meta.ErrDraining
	}
	p.workingSince = time.Now()
	return nil
}
