package lan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/internal/jitter"
	"allium/internal/limits"
)

const (
	scanEvery   = 2 * time.Second // interval of looks at the interfaces
	dialTimeout = 5 * time.Second
	dialers     = 4  // concurrent dials
	dialQueue   = 32 // dials that wait
	dialRate    = 10 // dials a second, with a burst of twice as many
	packetRate  = 50 // packets a second of one interface that are read, with a burst of twice as many

	maxPeers  = 256              // peers whose last dial is remembered, the latest
	redial    = 10 * time.Second // shortest time between two dials of a peer; doubled after each failure
	maxRedial = 5 * time.Minute
)

// Deps holds the dependencies of the service on its node. Log, Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Host    host.Host // the node closes it after Run has returned
	Network string    // fingerprint of the private network; empty for the public one
}

// Service finds nodes of the local network, and is found by them.
type Service struct {
	host    host.Host
	self    peer.ID
	network string
	log     *slog.Logger
	m       *metrics

	packets *limits.Rate
	dials   *limits.Rate
	queue   *limits.Queue[peer.AddrInfo]

	mu   sync.Mutex // guards seen; lock: leaf
	seen *simplelru.LRU[peer.ID, *attempt]

	scanEvery time.Duration // between two looks at the interfaces

	links map[int]*link // by index of the interface; only Run uses it
}

// attempt says when a peer may be dialed again.
type attempt struct {
	after  time.Time
	failed int // dials that failed in succession
}

// New returns a service that is not running. It starts nothing.
func New(d Deps) (*Service, error) {
	if d.Host == nil {
		return nil, errors.New("the discovery of the local network needs a host")
	}
	d.Env.SetDefaults()
	seen, err := simplelru.NewLRU[peer.ID, *attempt](maxPeers, nil)
	if err != nil {
		return nil, err
	}
	s := &Service{
		host: d.Host, self: d.Host.ID(), network: d.Network, log: d.Log, seen: seen, links: map[int]*link{},
		scanEvery: d.Every(scanEvery),
		packets: d.Limits.NewRate(limits.Spec{
			Name: "lan.packets", Path: "one interface → multicast DNS", Policy: "drop newest", Each: "interface",
		}, packetRate, 2*packetRate),
		dials: d.Limits.NewRate(limits.Spec{
			Name: "lan.dial_rate", Path: "multicast DNS → dials", Policy: "drop newest; the next announcement counts",
		}, dialRate, 2*dialRate),
		queue: limits.NewQueue[peer.AddrInfo](d.Limits, limits.Spec{
			Name: "lan.dials", Path: "multicast DNS → dials", Policy: "drop newest; the next announcement counts",
		}, dialQueue),
	}
	if s.m, err = newMetrics(d.Metrics); err != nil {
		return nil, fmt.Errorf("register the metrics of the local network: %w", err)
	}
	return s, nil
}

// Run finds nodes and is found until ctx ends.
func (s *Service) Run(ctx context.Context, ready func()) error {
	var tasks sync.WaitGroup
	for range dialers {
		tasks.Go(func() { s.dial(ctx) })
	}
	tick := time.NewTimer(jitter.Gather(s.scanEvery))
	defer tick.Stop()
	s.scan(ctx, &tasks)
	ready()
	for {
		select {
		case <-ctx.Done():
			tasks.Wait()
			return nil
		case <-tick.C:
			tick.Reset(jitter.Gather(s.scanEvery))
			s.scan(ctx, &tasks)
		}
	}
}

// scan opens the interfaces that are new or have changed, and closes those that are gone.
func (s *Service) scan(ctx context.Context, tasks *sync.WaitGroup) {
	now, err := interfaces()
	if err != nil {
		s.log.Debug("the interfaces cannot be listed", "err", err)
		return
	}
	current := map[int]bool{}
	for _, at := range now {
		if l := s.links[at.Index]; l != nil && l.at.equal(at) {
			current[at.Index] = true
		}
	}
	for index, l := range s.links {
		if !current[index] {
			l.end()
			delete(s.links, index)
		}
	}
	for _, at := range now {
		if !current[at.Index] {
			s.open(ctx, tasks, at)
		}
	}
	s.m.interfaces.Set(float64(len(s.links)))
}

// open begins to use an interface.
func (s *Service) open(ctx context.Context, tasks *sync.WaitGroup, at netInterface) {
	conn, err := open(at)
	if err != nil {
		s.log.Debug("multicast DNS cannot use an interface", "interface", at.Name, "err", err)
		return
	}
	ctx, end := context.WithCancel(ctx)
	l := &link{s: s, at: at, conn: conn, rate: s.packets.Member(), answer: make(chan struct{}, 1), end: end}
	s.links[at.Index] = l
	tasks.Go(func() {
		defer end()
		l.send(ctx)
		_ = conn.Close() // ends receive
	})
	tasks.Go(l.receive)
}

// announcement returns the packet with the addresses of this node on an interface, nil if it listens on
// none there.
func (s *Service) announcement(at netInterface, gone bool) ([]byte, error) {
	all, err := s.host.Network().InterfaceListenAddresses()
	if err != nil {
		return nil, err
	}
	addrs := within(all, at.nets)
	if len(addrs) == 0 {
		return nil, nil
	}
	return announcement(sighting{s.self, addrs, s.network}, gone)
}

// sighted queues a dial of a peer whose addresses are in the networks of the interface that heard of it.
// It returns what became of it, for the metric.
func (s *Service) sighted(f sighting) string {
	switch {
	case f.network != s.network:
		return "other_network"
	case len(f.addrs) == 0:
		return "elsewhere"
	case s.host.Network().Connectedness(f.id) == network.Connected:
		return "connected"
	case !s.due(f.id, time.Now()):
		return "waits"
	case !s.dials.Take() || s.queue.TryPut(peer.AddrInfo{ID: f.id, Addrs: f.addrs}) != nil:
		return "dropped"
	}
	return "found"
}

// due reports whether a peer may be dialed now. The next time is then later.
func (s *Service) due(id peer.ID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.seen.Get(id)
	if !ok {
		a = &attempt{}
		s.seen.Add(id, a)
	}
	if now.Before(a.after) {
		return false
	}
	a.after = now.Add(min(redial<<min(a.failed, 8), maxRedial))
	return true
}

// dialed notes how a dial ended.
func (s *Service) dialed(id peer.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.seen.Peek(id); ok && err == nil {
		a.failed = 0
	} else if ok {
		a.failed++
	}
}

// dial dials queued peers until ctx ends. The addresses stay in the peerstore for the dial alone: identify
// replaces them.
func (s *Service) dial(ctx context.Context) {
	for {
		info, err := s.queue.Get(ctx)
		if err != nil {
			return
		}
		dialing, cancel := context.WithTimeout(ctx, dialTimeout)
		err = s.host.Connect(dialing, info)
		cancel()
		s.dialed(info.ID, err)
		if err != nil {
			s.m.dials.WithLabelValues("failed").Inc()
			s.log.Debug("a node of the local network cannot be reached", "peer", info.ID, "err", err)
			continue
		}
		s.m.dials.WithLabelValues("ok").Inc()
		s.log.Info("connected to a node of the local network", "peer", info.ID, "addrs", info.Addrs)
	}
}
