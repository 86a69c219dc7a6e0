package providers

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// connected is a [Finder] that asks connected peers whether they have an object, one `have` each,
// before it asks the DHT.
//
//   - The likeliest connectedAtOnce peers are asked at once. When a peer has answered, or has not within
//     Config.HedgeAfter, the next one is asked, at most maxConnected in a lookup.
//   - The DHT is asked connectedLead later, or when all have answered that they do not have it. A fresh
//     search needs the DHT in any case and asks it at once.
//   - When the DHT has answered, peers get connectedLead more. So a lookup of what nobody has lasts at
//     most that much longer than without them. A DHT that failed has not answered: then all of them
//     are waited for until they are late.
//
// The answer of a peer is only a claim, as a hint is: the bytes that it sends later are proved.
type connected struct {
	peers *peers
	all   func() []peer.ID
	have  func(ctx context.Context, p peer.ID, root b3.Root) (b3.Presence, error)
	next  Finder
	cfg   *atomic.Pointer[Config]
	guard func(func() error) error // Pool.Guard
}

const (
	connectedAtOnce = 16
	maxConnected    = 64
	connectedLead   = 20 * time.Millisecond
)

// likeliest returns the peers to ask, the best first, without those in asked.
func (c *connected) likeliest(asked map[peer.ID]struct{}) (all []peer.ID) {
	for _, p := range c.all() {
		if _, again := asked[p]; !again && c.peers.usable(p) {
			all = append(all, p)
		}
	}
	now := time.Now()
	Rank(all, func(p peer.ID) Traits { return c.peers.traits(p, now) })
	return all[:min(len(all), maxConnected-min(len(asked), maxConnected))]
}

// look asks the likeliest peers that are not in known whether they have root, or a part of it. It calls found, in
// goroutines that have ended when look returns, for each that does.
func (c *connected) look(ctx context.Context, root b3.Root, known map[peer.ID]struct{}, found func(peer.ID)) {
	ask := c.likeliest(known)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(connectedAtOnce, len(ask)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(ask)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				_ = c.guard(func() error { // it has logged a panic; a peer that fails is not found
					if has, err := c.have(ctx, ask[i], root); err == nil && has != b3.Absent {
						found(ask[i])
					}
					return nil
				})
			}
		})
	}
	wg.Wait()
}

// FindProviders implements [Finder]. Each provider is yielded once, but a connected peer is yielded again if the DHT
// has a record of it.
func (c *connected) FindProviders(
	ctx context.Context, root b3.Root, opt FindOptions,
) iter.Seq2[record.Provider, error] {
	var ask []peer.ID
	if opt.asked == nil {
		opt.asked = map[peer.ID]struct{}{}
	}
	if !opt.Inner {
		ask = c.likeliest(opt.asked)
	}
	if len(ask) == 0 {
		return c.next.FindProviders(ctx, root, opt)
	}
	return func(yield func(record.Provider, error) bool) {
		requests := NewRequests(opt.Trace)
		defer requests.Finish() // after all have ended
		ctx, cancel := context.WithCancel(ctx)
		s := &connectedSearch{
			connected: c, root: root, opt: opt, ask: ask, requests: requests, events: make(chan connectedEvent),
		}
		defer s.running.Wait()
		defer cancel()
		if err := s.run(ctx, yield); err != nil {
			yield(record.Provider{}, err)
		}
	}
}

// connectedSearch is one search. One goroutine uses what is not events and running.
type connectedSearch struct {
	*connected
	root     b3.Root
	opt      FindOptions
	ask      []peer.ID // that were not asked yet
	requests *Requests

	running sync.WaitGroup
	events  chan connectedEvent // read until run returns, and then ctx has ended

	prompt  int // requests that are neither answered nor late
	open    int // requests that are not answered
	dhtDone bool
	dhtErr  error
}

// connectedEvent is an event of a source of the search: a provider, an error, a delay, or the end.
type connectedEvent struct {
	dht   bool // of the DHT, else of a connected peer
	found record.Provider
	err   error
	late  bool // a peer has not answered in time; its answer may follow
	ended bool // a peer has answered or failed, or the DHT has ended
	again bool // the answer of a peer that was late
}

// run asks until enough is found or all have ended. It returns why the DHT failed, or ctx's error.
func (s *connectedSearch) run(ctx context.Context, yield func(record.Provider, error) bool) error {
	lead := time.NewTimer(connectedLead) // until the DHT is asked, then unset until it has ended
	defer lead.Stop()
	asking := true // the DHT was not asked yet
	left := s.opt.Limit
	seen := map[peer.ID]struct{}{}
	s.more(ctx)
	for {
		if asking && (s.opt.Fresh || s.open == 0 && len(seen) == 0) {
			asking = false
			s.askDHT(ctx)
		}
		if s.dhtDone && (s.open == 0 || s.dhtErr != nil && s.prompt == 0) {
			return s.dhtErr
		}
		select {
		case e := <-s.events:
			if e.found.ID != "" {
				if _, again := seen[e.found.ID]; !again {
					seen[e.found.ID] = struct{}{}
					left--
				}
				if !yield(e.found, nil) || left == 0 {
					return nil
				}
			}
			switch {
			case e.dht && e.ended:
				s.dhtDone, s.dhtErr = true, e.err
				lead.Reset(connectedLead)
			case e.dht:
			case e.late:
				s.prompt--
			case e.ended:
				s.open--
				if !e.again {
					s.prompt--
				}
			}
			s.more(ctx)
		case <-lead.C:
			switch {
			case asking:
				asking = false
				s.askDHT(ctx)
			case s.dhtDone && s.dhtErr == nil:
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// more asks the next peers, as many as there are places.
func (s *connectedSearch) more(ctx context.Context) {
	for s.prompt < connectedAtOnce && len(s.ask) > 0 {
		p := s.ask[0]
		s.ask = s.ask[1:]
		s.opt.asked[p] = struct{}{}
		s.prompt++
		s.open++
		s.running.Go(func() { s.askPeer(ctx, p) })
	}
}

// send passes an event to run. It returns false when nobody reads it any more.
func (s *connectedSearch) send(ctx context.Context, e connectedEvent) bool {
	select {
	case s.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// askPeer asks a peer whether it has the object.
func (s *connectedSearch) askPeer(ctx context.Context, p peer.ID) {
	answered := make(chan connectedEvent, 1)
	s.running.Go(func() {
		e := connectedEvent{ended: true}
		done := s.requests.Start(p, false)
		var has b3.Presence
		err := s.guard(func() (err error) {
			has, err = s.have(ctx, p, s.root)
			return err
		})
		switch {
		case err != nil:
			done(0, err)
		case has == b3.Absent:
			done(0, status.Errorf(status.NotFound, "it does not have it"))
		default:
			done(1, nil)
			e.found.ID, e.found.Origin = p, record.OriginConnected
		}
		answered <- e
	})
	late := time.NewTimer(s.cfg.Load().HedgeAfter)
	defer late.Stop()
	select {
	case e := <-answered:
		s.send(ctx, e)
		return
	case <-late.C:
	}
	if s.send(ctx, connectedEvent{late: true}) {
		e := <-answered
		e.again = true
		s.send(ctx, e)
	}
}

// askDHT asks the next finder.
func (s *connectedSearch) askDHT(ctx context.Context) {
	s.running.Go(func() {
		var last error
		err := s.guard(func() error {
			for found, err := range s.next.FindProviders(ctx, s.root, s.opt) {
				if err != nil {
					last = err
				} else if !s.send(ctx, connectedEvent{dht: true, found: found}) {
					break
				}
			}
			return nil
		})
		if err != nil {
			last = err
		}
		s.send(ctx, connectedEvent{dht: true, ended: true, err: last})
	})
}
