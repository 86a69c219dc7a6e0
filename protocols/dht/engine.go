package dht

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/tasks"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/probes"
	"allium/protocols/kad"
	"allium/protocols/record"
	"allium/protocols/status"
)

// engine drives the lookups of package kad over the network. It sends each probe on a new goroutine and stream, and
// passes responses and the time to the state machine.
//
// A canceled probe is reset. A lookup returns while its canceled probes are still ending;
// the service waits for them through tasks.
type engine struct {
	self          peer.ID
	table         routes
	connected     func() []peer.ID    // peers to start from while the table is empty
	rememberAddrs func(peer.AddrInfo) // stores addresses for a dial that follows

	isConnected func(peer.ID) bool
	ignores     func(peer.ID) bool // see Deps.IgnorePeer
	fixedHedge  bool               // hedge delays are not adapted to peers
	tasks       *sync.WaitGroup    // the caller of run holds one count
	count       *tasks.Registry    // of lookups
	m           *metrics
}

// routes is the part of the routing table that lookups use.
type routes interface {
	Nearest(target kad.Key, n int) []kad.Peer[peer.ID]
	HedgeAfter(p peer.ID, limit time.Duration) time.Duration
}

// search describes one lookup.
type search struct {
	op     string // label of the metrics
	key    []byte
	cfg    kad.Config
	quorum kad.Quorum
	ask    askFunc
	found  func(context.Context, record.Provider) // receives providers in order of arrival; nil if ask returns none
	trace  *probes.Trace                          // may be nil
}

// askFunc sends one peer a request. It is called from several goroutines.
type askFunc func(ctx context.Context, p peer.ID) (answer, error)

// answer is the response of one peer.
type answer struct {
	closer    []peer.AddrInfo
	providers []record.Provider // verified, and new to the lookup
	values    int               // verified records of the name that is looked up: 0 or 1
}

// errNoPeers reports that neither the table nor a connection has a peer to ask.
var errNoPeers = status.Errorf(status.NoBootstrap,
	"no peers are known yet; check that a seed is configured (dht.bootstrap) and reachable")

// run executes one lookup. The error is ctx's, no_bootstrap, timeout or hop_exceeded. The
// result holds what was found, also beside an error.
func (e *engine) run(ctx context.Context, q search) (result kad.Result[peer.ID], err error) {
	end := e.count.Begin(tasks.Lookup)
	defer func() { end(err) }()
	d := &driver{
		engine: e, search: q, start: time.Now(),
		inFlight: make(map[peer.ID]*inFlightProbe),
		addrs:    make(map[peer.ID][]ma.Multiaddr),
		replies:  make(chan reply, q.cfg.Alpha+q.cfg.Beta), // bound: probes in flight
	}
	kq := kad.Query[peer.ID]{Target: kad.Hash(q.key), Self: e.self, Quorum: q.quorum, Seed: rand.Uint64()}
	if !e.fixedHedge {
		kq.HedgeAfter = d.hedgeAfter
	}
	l, err := kad.New(endWith(ctx, q.cfg), kq)
	if err != nil {
		return kad.Result[peer.ID]{}, err
	}
	d.lookup = l
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the probes still in flight
	d.loop(ctx)
	r := l.Result()
	r.Took = time.Since(d.start)
	e.observe(q, r, d.hedgesCanceled)
	if q.trace != nil {
		q.trace.Finish(r, ctx.Err())
	}
	return r, lookupError(ctx, r, q.cfg)
}

// endWith returns cfg for a lookup that must end with ctx. A probe may take three quarters of the
// time that is left: a peer that is silent has failed by then, and the lookup ends with what the
// others have answered.
func endWith(ctx context.Context, cfg kad.Config) kad.Config {
	if end, ok := ctx.Deadline(); ok {
		cfg.RPCTimeout = min(cfg.RPCTimeout, max(time.Until(end)*3/4, 1))
	}
	return cfg
}

// lookupError returns the error of a lookup, nil if it completed. A lookup in which no
// peer answered is a timeout: it does not show that there is no provider.
func lookupError(ctx context.Context, r kad.Result[peer.ID], cfg kad.Config) error {
	switch r.End {
	case kad.Converged:
		if r.Answers == 0 {
			return status.Errorf(status.Timeout, "none of %d peers answered: check the network", r.Probes)
		}
		return nil
	case kad.Satisfied:
		return nil
	case kad.NoPeers:
		return errNoPeers
	case kad.HopExceeded:
		return status.Errorf(status.HopExceeded, "the lookup needs more than %d hops", cfg.Hops)
	case kad.ProbeExceeded:
		return status.Errorf(status.HopExceeded, "the lookup needs more than %d probes", cfg.MaxProbes)
	case kad.TimedOut:
		return status.Errorf(status.Timeout, "the lookup took longer than %s", cfg.Deadline)
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

// startPeers returns the n nearest peers of the table. While the table is empty it returns
// the connected peers, because a connection becomes a table entry with some delay.
func (e *engine) startPeers(target kad.Key, n int) []kad.Peer[peer.ID] {
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

// driver executes one lookup. Its fields belong to the goroutine of loop.
type driver struct {
	*engine
	search
	lookup *kad.Lookup[peer.ID]
	start  time.Time

	inFlight       map[peer.ID]*inFlightProbe
	addrs          map[peer.ID][]ma.Multiaddr // of peers that responses named; at most k peers per probe
	replies        chan reply
	rtt            kad.RTT // of all responses so far, dials included
	hedgesCanceled int
}

// hedgeAfter returns the hedge delay of p. For a peer in the table the delay follows from its round trips, and for
// another connected peer from those of this lookup. Any other peer must be dialed first and has Config.HedgeAfter.
func (d *driver) hedgeAfter(p peer.ID) time.Duration {
	limit := d.cfg.HedgeAfter
	if own := d.table.HedgeAfter(p, limit); own < limit || !d.isConnected(p) {
		return own
	}
	return d.rtt.HedgeAfter(limit)
}

// inFlightProbe is a probe without a response so far.
type inFlightProbe struct {
	sent   time.Duration // since the start of the lookup
	cancel context.CancelFunc
	hedge  bool
	until  time.Duration // timeout, since the start of the lookup
	step   int           // index in the trace
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
	actions := d.lookup.Start(0, d.startPeers(target, 2*d.cfg.K))
	for {
		for _, a := range actions {
			d.perform(ctx, a)
		}
		next, running := d.lookup.Next()
		if !running {
			return
		}
		timer.Reset(next - time.Since(d.start))
		select {
		case r := <-d.replies:
			actions = d.handleReply(ctx, r)
		case <-timer.C:
			actions = d.lookup.Tick(time.Since(d.start))
		case <-ctx.Done():
			return
		}
	}
}

// perform carries out one action.
func (d *driver) perform(ctx context.Context, a kad.Action[peer.ID]) {
	switch a.Kind {
	case kad.Probe, kad.Hedge:
		d.send(ctx, a)
	case kad.Cancel:
		f := d.inFlight[a.Peer.ID]
		if f == nil {
			return
		}
		delete(d.inFlight, a.Peer.ID)
		f.cancel()
		if f.hedge {
			d.hedgesCanceled++
		}
		now := time.Since(d.start)
		_, running := d.lookup.Next()
		switch {
		case now >= f.until:
			d.trace.EndStep(f.step, now, status.Timeout.String())
		case running:
			d.trace.EndStep(f.step, now, probes.OutcomeLate)
		default:
			d.trace.EndStep(f.step, now, status.Canceled.String())
		}
	}
}

// send starts a probe. The probe ends with a response or when it is canceled.
func (d *driver) send(ctx context.Context, a kad.Action[peer.ID]) {
	p := a.Peer.ID
	d.rememberAddrs(peer.AddrInfo{ID: p, Addrs: d.addrs[p]})
	ctx, cancel := context.WithCancel(ctx)
	f := &inFlightProbe{cancel: cancel, hedge: a.Kind == kad.Hedge, sent: time.Since(d.start), until: a.Until}
	f.step = d.trace.Start(probes.Step{Peer: p, Hop: a.Hop, Hedge: f.hedge, Start: f.sent})
	d.inFlight[p] = f
	ask, replies := d.ask, d.replies
	d.tasks.Go(func() {
		defer cancel()
		answer, err := ask(ctx, p)
		select {
		case replies <- reply{p, answer, err}:
		case <-ctx.Done(): // canceled: loop no longer receives it
		}
	})
}

// handleReply passes a response to the state machine and its providers to found.
func (d *driver) handleReply(ctx context.Context, r reply) []kad.Action[peer.ID] {
	f := d.inFlight[r.peer]
	if f == nil {
		return nil // canceled while the response was on its way
	}
	delete(d.inFlight, r.peer)
	now := time.Since(d.start)
	if r.err != nil {
		d.trace.EndStep(f.step, now, status.Of(r.err).String())
		return d.lookup.Fail(now, r.peer)
	}
	d.rtt.Observe(now - f.sent)
	d.trace.Answered(f.step, now, len(r.closer), len(r.providers))
	for _, p := range r.providers {
		d.found(ctx, p)
	}
	closer := make([]kad.Peer[peer.ID], 0, len(r.closer))
	for _, info := range r.closer[:min(len(r.closer), d.cfg.K+1)] {
		if d.ignores(info.ID) {
			continue
		}
		closer = append(closer, kadPeer(info.ID))
		d.addAddrs(info)
	}
	return d.lookup.Answer(now, r.peer, kad.Reply[peer.ID]{
		Closer: closer, Providers: len(r.providers), Values: r.values,
	})
}

// addAddrs adds addresses of a peer that may be asked later. It merges the addresses that
// several peers name, so that a lying peer cannot hide the right ones.
func (d *driver) addAddrs(info peer.AddrInfo) {
	have := d.addrs[info.ID]
	for _, a := range info.Addrs {
		if len(have) >= 2*messages.MaxCloserAddrs {
			break
		}
		if !ma.Contains(have, a) {
			have = append(have, a)
		}
	}
	d.addrs[info.ID] = have
}
