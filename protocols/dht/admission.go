package dht

import (
	"context"
	"sync"
	"sync/atomic"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"

	"allium/internal/limits"
	"allium/protocols/status"
)

// running holds what exists only while Run runs.
type running struct {
	ctx     context.Context
	kad     *kaddht.IpfsDHT
	engine  *engine
	server  *server
	lookups sync.WaitGroup // lookups and their probes; added to only under admission.mu
}

// admission admits lookups while the service runs. Its methods are safe for concurrent use.
type admission struct {
	cfg  *atomic.Pointer[Config]
	gate *limits.Gate

	mu      sync.Mutex // lock: leaf
	running *running   // nil unless Run is between ready and its end
}

func (a *admission) setRunning(r *running) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = r
}

// current returns the run under way, nil if there is none.
func (a *admission) current() *running {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running
}

// begin admits a lookup. It returns the running parts and a context that also ends with
// the service. The caller must call end; a second call does nothing.
func (a *admission) begin(ctx context.Context) (_ *running, _ context.Context, end func(), err error) {
	a.mu.Lock()
	r := a.running
	if r != nil {
		r.lookups.Add(1)
	}
	a.mu.Unlock()
	if r == nil {
		return nil, nil, nil, status.Errorf(status.NotReady, "discovery is not running")
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.ctx, cancel)
	wait, done := context.WithTimeout(ctx, a.cfg.Load().FindTimeout)
	release, err := a.gate.Acquire(wait)
	done()
	end = sync.OnceFunc(func() {
		stop()
		cancel()
		if release != nil {
			release()
		}
		r.lookups.Done()
	})
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	return r, ctx, end, nil
}
