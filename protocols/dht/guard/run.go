package guard

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/status"
)

// run is one life of the guard: the streams in service and when it ends.
type run struct {
	ctx context.Context

	// Guarded by Guard.mu.
	streams map[*stream]struct{}
	over    bool

	empty chan struct{} // closed when the last stream leaves after the end
}

// Run serves guarded streams until ctx ends. Then new streams are reset, and
// those that wait for a message; the others may answer the message in hand
// within 1 s. Run returns nil when all their handlers have returned, and
// status.Conflict at once while another Run is under way. After a Run another
// may follow. Admit and Work do not need it.
func (g *Guard) Run(ctx context.Context, ready func()) error {
	r := &run{ctx: ctx, streams: map[*stream]struct{}{}, empty: make(chan struct{})}
	if !g.begin(r) {
		return status.Errorf(status.Conflict, "dht: the guard runs already")
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
	case <-r.empty:
		return nil
	case <-drain.C:
	}
	for _, s := range g.serving(r) {
		_ = s.ResetWithError(network.StreamShutdown)
	}
	<-r.empty
	return nil
}

func (g *Guard) begin(r *run) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.run != nil {
		return false
	}
	g.run = r
	return true
}

// end lets no more streams in and returns those in service.
func (g *Guard) end(r *run) []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.run, r.over = nil, true
	return slices.Collect(maps.Keys(r.streams))
}

func (g *Guard) serving(r *run) []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(r.streams))
}

// join counts s in and returns the run it belongs to, nil when there is none.
func (g *Guard) join(s *stream) *run {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.run != nil {
		g.run.streams[s] = struct{}{}
	}
	return g.run
}

// part counts s out.
func (g *Guard) part(s *stream, r *run) {
	g.mu.Lock()
	delete(r.streams, s)
	last := r.over && len(r.streams) == 0
	g.mu.Unlock()
	if last {
		close(r.empty)
	}
}
