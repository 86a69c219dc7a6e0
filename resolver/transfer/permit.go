package transfer

import (
	"context"
	"time"
)

// grant is the gate's answer to one of permission.asks.
type grant struct {
	ask     int
	release func()
	err     error
}

// permission is the permit of a transfer among those that fetch.
type permission struct {
	*drive
	granted chan grant
	permit  func()             // held while requests are in flight
	unask   context.CancelFunc // ends the wait for the permit; nil when there is none
	asks    int                // how often the permit was asked for
}

// acquire begins to wait for a place in the gate of fetches.
func (p *permission) acquire() {
	var ctx context.Context
	ctx, p.unask = context.WithCancel(p.work)
	p.asks++
	ask, begun := p.asks, time.Now()
	p.wg.Go(func() {
		release, err := p.set.gate.Acquire(ctx)
		noteWait(p.t.trace, time.Since(begun), err)
		if !send(ctx, p.granted, grant{ask, release, err}) && err == nil {
			release()
		}
	})
}

// grant takes the place, or gives it back if the driver has released it meanwhile.
func (p *permission) grant(g grant) error {
	if p.unask == nil || g.ask != p.asks {
		if g.err == nil {
			g.release()
		}
		return nil
	}
	p.unask()
	p.unask = nil
	if g.err != nil {
		return g.err
	}
	p.permit = g.release
	p.m.Granted()
	return nil
}

// release gives the place in the gate back, or ends the wait for it.
func (p *permission) release() {
	if p.unask != nil {
		p.unask()
		p.unask = nil
	}
	if p.permit != nil {
		p.permit()
		p.permit = nil
	}
}
