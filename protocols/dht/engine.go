package dht

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/kad"
	"allium/protocols/record"
	"allium/protocols/status"
)

// engine drives the lookups of package kad over the network: it sends the
// probes that the state machine asks for, each on a goroutine and a stream of
// its own, and tells it what comes back and when time has passed.
//
// Nobody waits for a loser: a probe that is cancelled is reset, and a lookup
// returns while its losers are still on their way out. They belong to tasks,
// which the service waits for.
type engine struct {
	self      peer.ID
	table     routes
	connected func() []peer.ID    // peers that would do while the table is empty
	know      func(peer.AddrInfo) // makes addresses known for the dial

	isConnected func(peer.ID) bool
	fixed       bool            // hedge delays are not adapted to peers
	tasks       *sync.WaitGroup // holds a count of the caller's own during run
	m           *metrics
}

// routes is what a lookup needs of the routing table.
type routes interface {
	Nearest(target kad.Key, n int) []kad.Peer[peer.ID]
	HedgeAfter(p peer.ID, limit time.Duration) time.Duration
}

// search is one lookup.
type search struct {
	op     string // label of the metrics
	key    []byte
	cfg    kad.Config
	quorum kad.Quorum
	ask    askFunc
	found  func(context.Context, record.Provider) // takes what answers bring, in order; nil: they bring nothing
	trace  *Trace                                 // may be nil
}

// askFunc asks one peer. It is called from several goroutines.
type askFunc func(ctx context.Context, p peer.ID) (answer, error)

// answer is what one peer said.
type answer struct {
	closer    []peer.AddrInfo
	providers []record.Provider // verified, and new to the lookup
}

// errNoPeers is returned when nobody is known.
var errNoPeers = status.Errorf(status.NoBootstrap, "dht: no peers are known yet: check that a seed is configured (dht.bootstrap) and reachable")

// run walks one lookup to its end. The error is ctx's, no_bootstrap, timeout or
// hop_exceeded; the result holds what was found until then.
func (e *engine) run(ctx context.Context, q search) (kad.Result[peer.ID], error) {
	d := &driver{
		engine: e, search: q, start: time.Now(),
		flight:  make(map[peer.ID]*flying),
		addrs:   make(map[peer.ID][]ma.Multiaddr),
		replies: make(chan reply, q.cfg.Alpha+q.cfg.Beta), // bound: probes in flight
	}
	kq := kad.Query[peer.ID]{Target: kad.Hash(q.key), Self: e.self, Quorum: q.quorum, Seed: rand.Uint64()}
	if !e.fixed {
		kq.HedgeAfter = d.hedgeAfter
	}
	l, err := kad.New(q.cfg, kq)
	if err != nil {
		return kad.Result[peer.ID]{}, err
	}
	d.lookup = l
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the losers
	d.loop(ctx)
	r := l.Result()
	r.Took = time.Since(d.start)
	e.observe(q, r, d.hedgesCanceled)
	if q.trace != nil {
		q.trace.finish(r, ctx.Err())
	}
	return r, outcome(ctx, r, q.cfg)
}

// outcome is how a lookup ended, as an error; nil when it came to its end. One
// that nobody answered knows nothing: that is not that there is nothing.
func outcome(ctx context.Context, r kad.Result[peer.ID], cfg kad.Config) error {
	switch r.End {
	case kad.Converged:
		if r.Answers == 0 {
			return status.Errorf(status.Timeout, "dht: none of the %d peers asked answered: check the network", r.Probes)
		}
		return nil
	case kad.Satisfied:
		return nil
	case kad.NoPeers:
		return errNoPeers
	case kad.HopExceeded:
		return status.Errorf(status.HopExceeded, "dht: the lookup needs more than %d hops", cfg.Hops)
	case kad.ProbeExceeded:
		return status.Errorf(status.HopExceeded, "dht: the lookup needs more than %d probes", cfg.MaxProbes)
	case kad.TimedOut:
		return status.Errorf(status.Timeout, "dht: the lookup took longer than %s", cfg.Deadline)
	}
	return ctx.Err()
}

func (e *engine) observe(q search, r kad.Result[peer.ID], hedgesCanceled int) {
	e.m.lookupSeconds.WithLabelValues(q.op).Observe(r.Took.Seconds())
	e.m.lookupHops.WithLabelValues(q.op).Observe(float64(r.Hops))
	e.m.lookupProbes.WithLabelValues(q.op).Observe(float64(r.Probes))
	e.m.hedges.Add(float64(r.Hedges))
	e.m.hedgesCanceled.Add(float64(hedgesCanceled))
}

// first is where a lookup begins: the nearest of the table, or who is connected
// while the table is empty: a connection becomes an entry with some delay.
func (e *engine) first(target kad.Key, n int) []kad.Peer[peer.ID] {
	if near := e.table.Nearest(target, n); len(near) > 0 {
		return near
	}
	var peers []kad.Peer[peer.ID]
	for _, p := range e.connected() {
		peers = append(peers, kadPeer(p))
	}
	return peers
}

func kadPeer(p peer.ID) kad.Peer[peer.ID] { return kad.Peer[peer.ID]{ID: p, Key: kad.Hash([]byte(p))} }

// driver is one running lookup. Its fields belong to loop's goroutine.
type driver struct {
	*engine
	search
	lookup *kad.Lookup[peer.ID]
	start  time.Time

	flight         map[peer.ID]*flying
	addrs          map[peer.ID][]ma.Multiaddr // of peers heard of; at most k for each probe
	replies        chan reply
	rtt            kad.RTT // of the answers so far, dials included
	hedgesCanceled int
}

// hedgeAfter is when p is late: by its own round trips when the table knows it,
// by those of this lookup when it is merely connected; a stranger has to be
// dialled first and gets all of Config.HedgeAfter.
func (d *driver) hedgeAfter(p peer.ID) time.Duration {
	limit := d.cfg.HedgeAfter
	if own := d.table.HedgeAfter(p, limit); own < limit || !d.isConnected(p) {
		return own
	}
	return d.rtt.HedgeAfter(limit)
}

// flying is a probe on its way.
type flying struct {
	sent   time.Duration // since the start
	cancel context.CancelFunc
	hedge  bool
	until  time.Duration // since the start, when it has failed
	step   int           // in the trace
}

type reply struct {
	peer peer.ID
	answer
	err error
}

func (d *driver) loop(ctx context.Context) {
	target := kad.Hash(d.key)
	timer := time.NewTimer(0)
	defer timer.Stop()
	actions := d.lookup.Start(0, d.first(target, 2*d.cfg.K))
	for {
		for _, a := range actions {
			d.do(ctx, a)
		}
		next, running := d.lookup.Next()
		if !running {
			return
		}
		timer.Reset(next - time.Since(d.start))
		select {
		case r := <-d.replies:
			actions = d.take(ctx, r)
		case <-timer.C:
			actions = d.lookup.Tick(time.Since(d.start))
		case <-ctx.Done():
			return
		}
	}
}

// do carries out one action.
func (d *driver) do(ctx context.Context, a kad.Action[peer.ID]) {
	switch a.Kind {
	case kad.Probe, kad.Hedge:
		d.send(ctx, a)
	case kad.Cancel:
		f := d.flight[a.Peer.ID]
		if f == nil {
			return
		}
		delete(d.flight, a.Peer.ID)
		f.cancel()
		if f.hedge {
			d.hedgesCanceled++
		}
		now := time.Since(d.start)
		_, running := d.lookup.Next()
		switch {
		case now >= f.until:
			d.trace.end(f.step, now, status.Timeout.String())
		case running:
			d.trace.end(f.step, now, givenUp)
		default:
			d.trace.end(f.step, now, status.Canceled.String())
		}
	}
}

// send starts a probe. It ends with its answer, or when it is cancelled.
func (d *driver) send(ctx context.Context, a kad.Action[peer.ID]) {
	p := a.Peer.ID
	d.know(peer.AddrInfo{ID: p, Addrs: d.addrs[p]})
	ctx, cancel := context.WithCancel(ctx)
	f := &flying{cancel: cancel, hedge: a.Kind == kad.Hedge, sent: time.Since(d.start), until: a.Until}
	f.step = d.trace.begin(Step{Peer: p, Hop: a.Hop, Hedge: f.hedge, Start: f.sent})
	d.flight[p] = f
	ask, replies := d.ask, d.replies
	d.tasks.Go(func() {
		defer cancel()
		answer, err := ask(ctx, p)
		select {
		case replies <- reply{p, answer, err}:
		case <-ctx.Done(): // nobody waits for it any more
		}
	})
}

// take hands an answer to the state machine, and what it brought to who wants it.
func (d *driver) take(ctx context.Context, r reply) []kad.Action[peer.ID] {
	f := d.flight[r.peer]
	if f == nil {
		return nil // was cancelled on its way here
	}
	delete(d.flight, r.peer)
	now := time.Since(d.start)
	if r.err != nil {
		d.trace.end(f.step, now, status.Of(r.err).String())
		return d.lookup.Fail(now, r.peer)
	}
	d.rtt.Observe(now - f.sent)
	d.trace.answered(f.step, now, len(r.closer), len(r.providers))
	for _, p := range r.providers {
		d.found(ctx, p)
	}
	closer := make([]kad.Peer[peer.ID], 0, len(r.closer))
	for _, info := range r.closer[:min(len(r.closer), d.cfg.K)] {
		closer = append(closer, kadPeer(info.ID))
		d.learn(info)
	}
	return d.lookup.Answer(now, r.peer, kad.Reply[peer.ID]{Closer: closer, Providers: len(r.providers)})
}

// learn keeps addresses for a peer that may be asked later. Several peers may
// name it: one that lies does not keep us from what the others say.
func (d *driver) learn(info peer.AddrInfo) {
	have := d.addrs[info.ID]
	for _, a := range info.Addrs {
		if len(have) >= 2*maxCloserAddrs {
			break
		}
		if !ma.Contains(have, a) {
			have = append(have, a)
		}
	}
	d.addrs[info.ID] = have
}
