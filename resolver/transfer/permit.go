package transfer

import (
	"context"
	"time"
)

// grant is the gate's answer to one of driver.asks.
type grant struct {
	ask     int
	release func()
	err     error
}

// acquire begins to wait for a place in the gate of fetches.
func (d *driver) acquire() {
	var ctx context.Context
	ctx, d.unask = context.WithCancel(d.work)
	d.asks++
	ask, begun := d.asks, time.Now()
	d.wg.Go(func() {
		release, err := d.set.gate.Acquire(ctx)
		noteWait(d.t.trace, time.Since(begun), err)
		select {
		case d.granted <- grant{ask, release, err}:
		case <-ctx.Done():
			if err == nil {
				release()
			}
		}
	})
}

// grant takes the place, or gives it back if the driver has released it meanwhile.
func (d *driver) grant(g grant) error {
	if d.unask == nil || g.ask != d.asks {
		if g.err == nil {
			g.release()
		}
		return nil
	}
	d.unask()
	d.unask = nil
	if g.err != nil {
		return g.err
	}
	d.permit = g.release
	d.m.Granted()
	return nil
}

// release gives the place in the gate back, or ends the wait for it.
func (d *driver) release() {
	if d.unask != nil {
		d.unask()
		d.unask = nil
	}
	if d.permit != nil {
		d.permit()
		d.permit = nil
	}
}
