package providers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/sony/gobreaker/v2"

	"allium/internal/limits"
	"allium/protocols/status"
)

// peers is a bounded table of the peers that are asked. Each has:
//
//   - a circuit breaker (SPEC §2): a peer that failed more than half of at least
//     five requests within ten seconds gets none for five seconds, and then has to
//     answer two probes. If it was unreachable, a connection closes the breaker at
//     once, and a request that waited for it to return is a probe;
//   - its measured throughput;
//   - its standing: claims that proved wrong, requests that it was late with, and when it was busy;
//   - a gate in which requests wait, so that their waiting is not taken for the
//     peer's silence.
//
// When the table is full the least recently used peer is dropped.
type peers struct {
	cfg      Config
	settings gobreaker.Settings
	gates    *limits.Gate
	epoch    atomic.Uint64 // changes when a ranking may have changed

	mu    sync.Mutex // guards table; never held while a request runs; lock: leaf
	table *simplelru.LRU[peer.ID, *asked]
}

// asked is the state kept of one peer.
type asked struct {
	Throughput
	standing
	breaker atomic.Pointer[gobreaker.TwoStepCircuitBreaker[struct{}]]
	down    atomic.Bool  // its latest failure was that it could not be reached
	probe   atomic.Bool  // the next request passes the open breaker
	probed  atomic.Int64 // when probe was set, in nanoseconds
	gate    *limits.Gate
}

// breakerBuckets divides BreakerWindow: failures leave it in steps of a tenth.
const breakerBuckets = 10

func newPeers(cfg Config, r *limits.Registry, opened func()) *peers {
	table, err := simplelru.NewLRU[peer.ID, *asked](cfg.BreakerPeers, nil)
	if err != nil {
		panic(err) // only a size below one fails, which Validate refuses
	}
	t := &peers{cfg: cfg, table: table, gates: r.NewGate(limits.Spec{
		Name: "resolver.peer_requests", Path: "transfers → requests to one peer", Policy: "wait, then busy",
		Each: "peer",
	}, cfg.PeerRequests, cfg.PeerRequestsWaiting)}
	t.settings = breakerSettings(cfg, func(to gobreaker.State) {
		t.epoch.Add(1)
		if to == gobreaker.StateOpen {
			opened()
		}
	})
	t.settings.IsSuccessful = func(err error) bool { return blame(err) == blameless }
	t.settings.IsExcluded = func(err error) bool { return blame(err) == irrelevant }
	return t
}

// breakerSettings returns the settings that all breakers share (SPEC §2). changed
// must not wait: it is called while the breaker is locked.
func breakerSettings(cfg Config, changed func(to gobreaker.State)) gobreaker.Settings {
	return gobreaker.Settings{
		MaxRequests:  uint32(cfg.BreakerProbes),
		Interval:     cfg.BreakerWindow,
		BucketPeriod: cfg.BreakerWindow / breakerBuckets,
		Timeout:      cfg.BreakerCooldown,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			calls := c.TotalSuccesses + c.TotalFailures
			return calls >= uint32(cfg.BreakerMinCalls) &&
				float64(c.TotalFailures) > cfg.BreakerErrors*float64(calls)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) { changed(to) },
	}
}

// enter waits until p may be asked. The caller passes the request's error to done
// when the request ends. The error is breaker_open while p's breaker is open, and
// busy when too many requests wait for p.
func (t *peers) enter(ctx context.Context, p peer.ID) (done func(error), err error) {
	to := t.get(p)
	leave, err := to.gate.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	breaker := to.breaker.Load()
	judge, err := breaker.Allow()
	if err != nil && to.probe.Swap(false) && to.down.Load() {
		judge, err = func(failure error) {
			if blame(failure) == blameless {
				t.close(to, breaker)
			}
		}, nil
	}
	if err != nil {
		leave()
		return nil, &status.Error{
			Outcome: status.BreakerOpen,
			Message: "the peer failed too often; it is asked again after a pause",
			Limit:   &status.Limit{Name: "resolver.breaker", RetryAfter: t.cfg.BreakerCooldown},
			Err:     err,
		}
	}
	return func(err error) { judge(err); t.judge(to, err); leave() }, nil
}

func (t *peers) get(p peer.ID) *asked {
	t.mu.Lock()
	defer t.mu.Unlock()
	to, ok := t.table.Get(p)
	if !ok {
		to = &asked{gate: t.gates.Member()}
		to.breaker.Store(gobreaker.NewTwoStepCircuitBreaker[struct{}](t.settings))
		t.table.Add(p, to)
	}
	return to
}

// reached closes the breaker of a peer that could not be reached and is connected now.
func (t *peers) reached(p peer.ID) {
	if to := t.peek(p); to != nil && to.down.Load() {
		t.close(to, to.breaker.Load())
	}
}

// probeEvery is the least time between two requests to one peer that pass its open breaker.
const probeEvery = 2 * time.Second

// probe lets the next request to a peer that could not be reached pass its breaker.
func (t *peers) probe(p peer.ID) {
	to, now := t.peek(p), time.Now().UnixNano()
	if to == nil || to.breaker.Load().State() != gobreaker.StateOpen {
		return
	}
	if last := to.probed.Load(); now-last >= int64(probeEvery) && to.probed.CompareAndSwap(last, now) {
		to.probe.Store(true)
	}
}

// close replaces a breaker that is not closed.
func (t *peers) close(to *asked, old *gobreaker.TwoStepCircuitBreaker[struct{}]) {
	if old.State() != gobreaker.StateClosed &&
		to.breaker.CompareAndSwap(old, gobreaker.NewTwoStepCircuitBreaker[struct{}](t.settings)) {
		t.epoch.Add(1)
	}
}

// states counts the breakers by state.
func (t *peers) states() map[gobreaker.State]int {
	t.mu.Lock()
	all := t.table.Values()
	t.mu.Unlock()
	n := map[gobreaker.State]int{}
	for _, to := range all {
		n[to.breaker.Load().State()]++
	}
	return n
}

// verdict is the judgement of a peer by the outcome of a request to it.
type verdict uint8

const (
	blameless  verdict = iota // the peer answered properly, perhaps with "not found"
	guilty                    // the peer failed, stalled or lied
	irrelevant                // this node stopped the request, or the peer was only busy
)

// blame judges a peer by the error of a request to it.
func blame(err error) verdict {
	if IsFinal(err) {
		return irrelevant
	}
	switch o := status.Of(err); o {
	case status.OK, status.NotFound, status.Gone, status.Denied, status.Forbidden, status.NotAllowed,
		status.Unauthenticated:
		return blameless
	case status.Canceled, status.Draining, status.NotReady, status.BreakerOpen,
		status.Busy, status.RateLimit, status.Quota:
		return irrelevant
	default:
		return guilty
	}
}
