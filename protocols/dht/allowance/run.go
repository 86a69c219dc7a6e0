package allowance

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/status"
)

// guardRun is one run of the guard, with the streams that it serves.
type guardRun struct {
	ctx context.Context

	// Guarded by Guard.mu.
	streams map[*stream]struct{}
	ended   bool

	drained chan struct{} // closed when the last stream leaves after the run has ended
}

// Run serves guarded streams until ctx ends. It then resets new streams and those that
// wait for a message. The others have 1 s to answer the message that they have read. Run
// returns nil when all handlers have returned. It returns status.Conflict at once if the
// guard already runs. Run may be called again after it returned. Admit and Work do not
// need it.
func (g *Guard) Run(ctx context.Context, ready func()) error {
	r := &guardRun{ctx: ctx, streams: map[*stream]struct{}{}, drained: make(chan struct{})}
	if !g.begin(r) {
		return status.Errorf(status.Conflict, "the guard already runs")
	}
	ready()
	<-ctx.Done()

	left := g.end(r)
	if len(left) == 0 {
		return nil
	}
	for _, s := range left {
		s.stop()
	}
	drain := time.NewTimer(drainTimeout)
	defer drain.Stop()
	select {
	case <-r.drained:
		return nil
	case <-drain.C:
	}
	for _, s := range g.serving(r) {
		_ = s.ResetWithError(network.StreamShutdown)
	}
	<-r.drained
	return nil
}

func (g *Guard) begin(r *guardRun) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.run != nil {
		return false
	}
	g.run = r
	return true
}

// end refuses further streams and returns those in service.
func (g *Guard) end(r *guardRun) []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.run, r.ended = nil, true
	return slices.Collect(maps.Keys(r.streams))
}

func (g *Guard) serving(r *guardRun) []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(r.streams))
}

// join adds s to the current run and returns the run, nil if the guard does not run.
func (g *Guard) join(s *stream) *guardRun {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.run != nil {
		g.run.streams[s] = struct{}{}
	}
	return g.run
}

// leave removes s from its run.
func (g *Guard) leave(s *stream, r *guardRun) {
	g.mu.Lock()
	delete(r.streams, s)
	last := r.ended && len(r.streams) == 0
	g.mu.Unlock()
	if last {
		close(r.drained)
	}
}
