// Package members finds the other nodes of this node's cluster: those that have a common key in
// their capability rings. It needs no further configuration.
//
// Invariants:
//
//   - A node is a member only after an offer that it signed was opened with a key of the ring.
//   - Members, remembered authors, dials and searches are bounded.
//   - Members that were known before a restart are known after it, and have a grace to be heard.
//   - Without a key in the ring, or with node.amnesia, this node sends no offer and publishes
//     nothing. It passes on the offers of others, which it cannot read.
//
// How members meet: each publishes a provider record under a key that only the ring derives, looks
// it up, and connects to those it finds. Then its offers arrive by gossip: at once, some more
// in the first seconds, and one each [Params.Every]. A member that is new is answered with an offer.
package members

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/internal/jitter"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/store/cluster/offer"
	"allium/store/cluster/plan"
)

// Space is the storage space that a node offers.
type Space struct {
	Capacity, Free uint64 // bytes
}

// Deps holds the dependencies of a Service. Metrics and Records may be nil, no other field.
type Deps struct {
	env.Env

	Key   crypto.PrivKey
	Ring  offer.Ring
	Space func() Space // what this node offers now
	// Publish sends a message to offer.Topic.
	Publish func(ctx context.Context, data []byte) error
	// Provide publishes a provider record of this node; Find yields the providers of a key.
	Provide func(ctx context.Context, key b3.Root) error
	Find    func(ctx context.Context, key b3.Root) iter.Seq2[record.Provider, error]
	// Connect connects to a provider, unless it is connected.
	Connect func(ctx context.Context, p peer.AddrInfo) error
	// Network returns the network of a peer's addresses, "" if it is not known.
	Network func(p peer.ID) string
	// Broken reports whether this node's breaker for a peer is open.
	Broken  func(p peer.ID) bool
	Records ds.Datastore // keeps the members over a restart; nil: nothing does
}

// Service knows the members of the cluster. Its methods are safe for concurrent use.
type Service struct {
	cfg  Config
	deps Deps
	self peer.ID

	met chan struct{} // bound: 1; a member is new, and has not heard of this node, or what it is told has changed

	// lock: held across I/O, because the file and what Draining returns change together, for an operator
	draining sync.Mutex // held while what Draining returns is changed, in the file too; lock: config

	mu      sync.Mutex // lock: leaf
	cluster *plan.Cluster
	heard   *simplelru.LRU[peer.ID, time.Time] // when an author's latest message was let through
	seq     uint64                             // of the latest offer
	drained time.Time                          // since when this node hands its copies over; zero: it does not
}

// New returns a service that has not met anybody.
func New(cfg Config, d Deps) (*Service, error) {
	d.Env.SetDefaults()
	self, err := peer.IDFromPrivateKey(d.Key)
	if err != nil {
		return nil, err
	}
	heard, err := simplelru.NewLRU[peer.ID, time.Time](maxAuthors, nil)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: d, self: self, heard: heard, met: make(chan struct{}, 1), // bound: 1, a second one adds nothing
		cluster: plan.NewCluster(plan.ID(self), cfg.Durability, d.Now()),
	}
	s.drained = s.readDraining()
	register(d.Metrics, s.View)
	return s, nil
}

// View returns the members as of now, this node among them once it has sent an offer.
func (s *Service) View() *plan.View {
	s.mu.Lock()
	ids := s.cluster.IDs()
	s.mu.Unlock()
	broken := make([]bool, len(ids))
	for i, id := range ids {
		broken[i] = s.deps.Broken(peer.ID(id))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range ids {
		s.cluster.Break(id, broken[i])
	}
	return s.cluster.View(s.deps.Now())
}

// Contact notes that a member answered: it is there even if its offers do not arrive.
func (s *Service) Contact(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster.Contact(plan.ID(p), s.deps.Now())
}

// Resume ends the time in which only last copies are sent as many members vanished together: those that are silent now
// do not come back. It returns how many these are.
func (s *Service) Resume() (silent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster.Resume(s.deps.Now())
}

// Member returns nil for a member that is present, and forbidden for any other peer.
func (s *Service) Member(p peer.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster.Present(plan.ID(p), s.deps.Now()) {
		return nil
	}
	return status.Errorf(status.Forbidden, "%s is no member of this node's cluster: no offer of it, sealed with "+
		"a key of capability.keys, arrived in the last %s", p, s.cfg.Durability.Grace)
}

// Validate decides whether a message of offer.Topic is relayed and handled. A message that no cluster can have sent is
// an error that counts against its sender. A message of another cluster is relayed, as it cannot be read. A message of
// an author that sent another within minGap is ignored.
func (s *Service) Validate(from peer.ID, data []byte) error {
	_, _, err := s.open(from, data)
	if err == nil && from != s.self {
		err = s.allow(from)
	}
	return err
}

// allow returns rate_limit if the author's latest message is younger than minGap.
func (s *Service) allow(from peer.ID) error {
	now := s.deps.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.heard.Get(from); ok && now.Sub(last) < minGap && !now.Before(last) {
		return status.Errorf(status.RateLimit, "%s sent another offer less than %s ago", from, minGap)
	}
	s.heard.Add(from, now)
	return nil
}

// open returns the offer in a message of an author. ours is false for one of another cluster.
func (s *Service) open(from peer.ID, data []byte) (o offer.Offer, ours bool, err error) {
	envelope, ours, err := offer.Open(data, s.deps.Ring)
	if err != nil || !ours {
		return offer.Offer{}, false, err
	}
	if o, err = offer.Verify(envelope, s.deps.Now()); err != nil {
		return offer.Offer{}, false, err
	}
	if o.Peer != from {
		return offer.Offer{}, false, status.Errorf(status.BadSignature, "%s sends the offer of %s", from, o.Peer)
	}
	return o, true, nil
}

// Handle takes up an offer. Validate has accepted the message.
func (s *Service) Handle(from peer.ID, data []byte) {
	o, ours, err := s.open(from, data)
	if err != nil || !ours || !s.cfg.mayBe(from) {
		return
	}
	m := plan.Member{
		ID: plan.ID(o.Peer), Capacity: o.Capacity, Free: o.Free, Draining: o.Draining,
		Place: plan.Place{Domain: o.Domain, Region: o.Region, Network: s.deps.Network(o.Peer)},
	}
	now := s.deps.Now()
	s.mu.Lock()
	old, known := s.cluster.View(now).Member(m.ID)
	err = s.cluster.Offer(m, o.Seq, now)
	s.mu.Unlock()
	if err != nil || known && !old.Gone {
		return
	}
	s.deps.Log.Info("met a member of the cluster", "peer", o.Peer, "capacity", o.Capacity, "free", o.Free)
	s.offerSoon()
}

// offerSoon has an offer sent within about earlyEvery.
func (s *Service) offerSoon() {
	select {
	case s.met <- struct{}{}:
	default:
	}
}

// Run sends offers and looks for members until ctx ends.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.restore(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { s.search(ctx) })
	tasks.Go(func() { s.remember(ctx) })
	ready()
	early := earlyOffers
	for ctx.Err() == nil {
		wait := jitter.Spread(s.cfg.Every)
		switch sent := s.send(ctx); {
		case !sent:
			wait, early = jitter.Spread(ringPoll), earlyOffers
		case early > 0:
			wait, early = jitter.Spread(earlyEvery), early-1
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.met:
			_ = jitter.Sleep(ctx, earlyEvery) // others may be new too: one offer for all
		}
		timer.Stop()
	}
	tasks.Wait()
	return nil
}

// send sends an offer of this node and reports whether it has a ring.
func (s *Service) send(ctx context.Context) bool {
	if len(s.deps.Ring.Derive(rendezvousContext)) == 0 {
		return false
	}
	now, space := s.deps.Now(), s.deps.Space()
	o := offer.Offer{
		Peer: s.self, NotAfter: now.Add(lifetime), Capacity: space.Capacity, Free: space.Free,
		Region: s.cfg.Region, Domain: s.cfg.Domain, Draining: !s.Draining().IsZero(),
	}
	m := plan.Member{
		ID: plan.ID(s.self), Capacity: o.Capacity, Free: o.Free, Draining: o.Draining,
		Place: plan.Place{Domain: o.Domain, Region: o.Region, Network: s.deps.Network(s.self)},
	}
	s.mu.Lock()
	s.seq = max(s.seq+1, uint64(now.UnixMilli()))
	o.Seq = s.seq
	err := s.cluster.Offer(m, o.Seq, now)
	s.mu.Unlock()
	if err == nil {
		err = s.deps.publish(ctx, o)
	}
	if err != nil && ctx.Err() == nil {
		s.deps.Log.Debug("an offer to the cluster was not sent", "err", err)
	}
	return true
}

// publish signs and seals an offer, and sends it.
func (d *Deps) publish(ctx context.Context, o offer.Offer) error {
	envelope, err := o.Sign(d.Key)
	if err != nil {
		return err
	}
	sealed, err := offer.Seal(envelope, d.Ring)
	if err != nil {
		return err
	}
	return d.Publish(ctx, sealed)
}

// search publishes where members meet, and connects to those it finds there.
func (s *Service) search(ctx context.Context) {
	wait := searchSoon
	for ctx.Err() == nil {
		keys := s.deps.Ring.Derive(rendezvousContext)
		found, err := s.deps.search(ctx, keys)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.Debug("members of the cluster could not be looked for", "err", err)
		}
		pause := jitter.Spread(ringPoll)
		switch wait = min(2*wait, s.cfg.Search); {
		case len(keys) == 0:
			wait = searchSoon
		case found > 0 && err == nil:
			wait, pause = searchSoon, jitter.Spread(s.cfg.Search)
		default:
			pause = jitter.Spread(wait)
		}
		if !jitter.Sleep(ctx, pause) {
			return
		}
	}
}

// search looks under each derived key and returns how many members were found.
func (d *Deps) search(ctx context.Context, keys []capability.Derived) (found int, err error) {
	var errs []error
	for _, key := range keys {
		root := b3.Root(key)
		if err := d.Provide(ctx, root); err != nil {
			errs = append(errs, err)
		}
		tries := 0
		for p, err := range d.Find(ctx, root) {
			if err != nil {
				errs = append(errs, err)
				break
			}
			if tries++; tries > maxDials {
				break
			}
			dialing, cancel := context.WithTimeout(ctx, dialTimeout)
			err := d.Connect(dialing, p.AddrInfo)
			cancel()
			if err != nil {
				errs = append(errs, err)
				continue
			}
			found++
		}
	}
	return found, errors.Join(errs...)
}
