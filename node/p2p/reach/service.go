package reach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/env"
	"allium/internal/limits"
)

// Config says what a node wants of its reach.
type Config struct {
	Announce []ma.Multiaddr  // announced whatever AutoNAT finds
	Relays   []peer.AddrInfo // preferred to those that peers offer
	Relayed  bool            // use relays while the node cannot be dialled
	Serve    bool            // relay for others while this node can be dialled
	Public   bool            // the node counts as direct, and so it serves from the start
	All      bool            // announce all addresses: a private network or a testnet

	Protocols []protocol.ID // this node relays for peers that speak one of them
}

// Deps holds the dependencies of a [Service]. All may be nil.
type Deps struct {
	env.Env
}

// Service decides what a host announces, keeps its relays and serves as one. The host is made with Options,
// Attach gives it to the service, and then Run runs.
type Service struct {
	cfg  Config
	deps Deps
	log  *slog.Logger
	m    *metrics

	host host.Host // set by Attach
	view atomic.Pointer[view]
	on   atomic.Bool                // this node relays for others
	nat  atomic.Pointer[portMapper] // nil: the router is not asked for ports
	wake chan struct{}              // tells Run to look

	observers atomic.Pointer[observers] // nil: the host does not listen to what peers see

	ways

	lastPublic time.Time // of the last connection to a public address; only Run uses it
}

// ways are the parts by which this node and others reach each other.
type ways struct {
	relays   *keeper
	serving  *server
	punches  *punches
	dialback *dialbacks
	paths    paths
	bulk     *Bulk
}

// New returns a service that is not running. It starts nothing.
func New(cfg Config, d Deps) (*Service, error) {
	d.Env.SetDefaults()
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the reach: %w", err)
	}
	s := &Service{cfg: cfg, deps: d, log: d.Log, m: m, wake: make(chan struct{}, 1), ways: ways{paths: newPaths()}}
	s.view.Store(&view{})
	if s.relays, err = newKeeper(s); err != nil {
		return nil, err
	}
	if s.dialback, err = newDialbacks(); err != nil {
		return nil, err
	}
	if s.bulk, err = newBulk(m); err != nil {
		return nil, err
	}
	s.serving = newServer(s)
	s.punches = newPunches(s)
	return s, nil
}

// Announced is the host's address factory: it returns the addresses to announce.
func (s *Service) Announced(all []ma.Multiaddr) []ma.Multiaddr {
	if s.cfg.All {
		return ma.Unique(slices.Concat(all, s.cfg.Announce))
	}
	return s.view.Load().announced(all, s.cfg.Announce)
}

// NATManager is the host's constructor of the port mapping, which the service reads too.
func (s *Service) NATManager(n network.Network) basichost.NATManager {
	m := newPortMapper(n)
	s.nat.Store(m)
	return m
}

// Attach gives the service its host. The caller calls it before Run, and closes the host after Run has
// returned.
func (s *Service) Attach(h host.Host) { s.host, s.bulk.host = h, h }

// confirmer is a host that knows which of its addresses peers have dialled.
type confirmer interface {
	ConfirmedAddrs() (reachable, unreachable, unknown []ma.Multiaddr)
}

// events are those after which the node looks again.
func events() []any {
	return []any{
		new(event.EvtHostReachableAddrsChanged), new(event.EvtLocalAddressesUpdated),
		new(event.EvtPeerIdentificationCompleted), new(event.EvtPeerIdentificationFailed),
		new(event.EvtPeerProtocolsUpdated), new(event.EvtPeerConnectednessChanged), new(event.EvtNATDeviceTypeChanged),
	}
}

// Run keeps what is announced and the relays right until ctx ends.
func (s *Service) Run(ctx context.Context, ready func()) error {
	if s.host == nil {
		return errors.New("the reach of a node needs a host")
	}
	emitter, err := s.host.EventBus().Emitter(new(event.EvtAutoRelayAddrsUpdated), eventbus.Stateful)
	if err != nil {
		return fmt.Errorf("announce addresses: %w", err)
	}
	sub, err := s.host.EventBus().Subscribe(events(), eventbus.Name("reach"), eventbus.BufSize(128))
	if err != nil {
		return errors.Join(err, emitter.Close())
	}
	notifiee := s.connections()
	s.host.Network().Notify(notifiee)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(sub) })
	if m := s.nat.Load(); m != nil {
		watching.Go(func() { m.run(ctx, s.look) })
	}
	s.relays.begin(ctx)
	s.update(emitter, time.Now())
	ready()
	s.loop(ctx, emitter)
	s.relays.end()
	s.serving.stop()
	s.host.Network().StopNotify(notifiee)
	err = errors.Join(sub.Close(), emitter.Close())
	watching.Wait()
	return err
}

// connections is told of new connections.
func (s *Service) connections() network.Notifiee {
	return &network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		s.paths.connected(c)
		s.dialback.connected(c)
	}}
}

// watch takes events until the subscription is closed. It never waits.
func (s *Service) watch(sub event.Subscription) {
	for e := range sub.Out() {
		switch e := e.(type) {
		case event.EvtNATDeviceTypeChanged:
			s.punches.natChanged(e)
		case event.EvtPeerIdentificationFailed:
			s.dialback.unidentified(e.Peer)
		}
		s.look()
	}
}

// look makes Run look again.
func (s *Service) look() {
	select {
	case s.wake <- struct{}{}:
	default: // it will
	}
}

// loop looks after events and from time to time until ctx ends.
func (s *Service) loop(ctx context.Context, emitter event.Emitter) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case r := <-s.relays.results:
			s.relays.settle(r, time.Now())
		case <-timer.C:
		}
		now := time.Now()
		s.observers.Load().expire(now)
		s.relays.step(s.needsRelay(), now)
		s.update(emitter, now)
		if s.lastPublic.Before(now) { // there is no connection now
			s.paths.forget()
		}
		timer.Reset(max(lookGap, min(lookEvery, s.relays.next(now))))
		if !pause(ctx, lookGap) {
			return
		}
	}
}

// pause waits for d and reports whether ctx still runs.
func pause(ctx context.Context, d time.Duration) bool { return limits.Sleep(ctx, d) == nil }

// needsRelay reports whether the node is to be reached through relays.
func (s *Service) needsRelay() bool { return s.cfg.Relayed && !s.current(time.Now()).direct }

// current returns what is so now.
func (s *Service) current(now time.Time) *view {
	v := &view{}
	if c, ok := s.host.(confirmer); ok {
		v.reachable, _, _ = c.ConfirmedAddrs()
	}
	all, err := s.host.Network().InterfaceListenAddresses()
	if err != nil {
		s.log.Debug("the addresses of the interfaces cannot be listed", "err", err)
	}
	for _, a := range all {
		if manet.IsPublicAddr(a) {
			v.own = append(v.own, a)
		}
	}
	mapped := s.mapped()
	v.direct = s.cfg.Public || len(s.cfg.Announce) > 0 || slices.ContainsFunc(v.reachable, func(a ma.Multiaddr) bool {
		return slices.ContainsFunc(v.own, bare(a).Equal) || slices.ContainsFunc(mapped, a.Equal)
	})
	if slices.ContainsFunc(s.host.Network().Conns(), isPublic) {
		s.lastPublic = now
	}
	v.internet = !s.lastPublic.IsZero() && now.Sub(s.lastPublic) < offline
	v.relayed = s.relays.addrs()
	for _, some := range [][]ma.Multiaddr{v.own, v.reachable, v.relayed} {
		slices.SortFunc(some, ma.Multiaddr.Compare)
	}
	return v
}

// Status describes a node's reach, as far as the service knows it.
type Status struct {
	Direct   bool           // peers can dial the node without a relay
	Serving  bool           // it relays for others
	Mapped   []ma.Multiaddr // by the router
	Announce []ma.Multiaddr // of listen.announce
	UDP, TCP string         // type of the own NAT
}

// Status returns what the service knows now.
func (s *Service) Status() Status {
	return Status{
		Direct: s.view.Load().direct, Serving: s.on.Load(), Mapped: s.mapped(), Announce: s.cfg.Announce,
		UDP: s.punches.natOf(false), TCP: s.punches.natOf(true),
	}
}

// Addrs returns the addresses at which a host is announced or listens, each once. The addresses of its interfaces are
// not announced on the Internet, but nodes in the same LAN can dial them.
func Addrs(h host.Host) []ma.Multiaddr {
	own, err := h.Network().InterfaceListenAddresses()
	if err != nil {
		return h.Addrs() // the interfaces cannot be listed
	}
	own = slices.DeleteFunc(slices.Clone(own),
		func(a ma.Multiaddr) bool { return IsRelayed(a) || manet.IsPublicAddr(a) })
	return ma.Unique(slices.Concat(h.Addrs(), own))
}

// isPublic reports whether a connection leads to a public address without a relay.
func isPublic(c network.Conn) bool {
	return !IsRelayed(c.RemoteMultiaddr()) && manet.IsPublicAddr(c.RemoteMultiaddr())
}

// mapped returns the addresses that the router maps to this node.
func (s *Service) mapped() (addrs []ma.Multiaddr) {
	m := s.nat.Load()
	if m == nil {
		return nil
	}
	for _, a := range s.host.Network().ListenAddresses() {
		if at := m.GetMapping(a); at != nil {
			addrs = append(addrs, at)
		}
	}
	return addrs
}

// update stores what is so now. If that changes what is announced, the host tells its peers; and a node
// that became direct begins to serve as a relay.
func (s *Service) update(emitter event.Emitter, now time.Time) {
	v := s.current(now)
	s.m.relays.Set(float64(len(s.relays.held)))
	s.m.direct.Set(map[bool]float64{true: 1}[v.direct])
	s.serving.set(v.direct)
	if v.equal(s.view.Load()) {
		return
	}
	s.view.Store(v)
	// The host computes its addresses when it hears of relays.
	if err := emitter.Emit(event.EvtAutoRelayAddrsUpdated{RelayAddrs: v.relayed}); err != nil {
		s.log.Warn("the new addresses are announced late", "err", err)
	}
}
