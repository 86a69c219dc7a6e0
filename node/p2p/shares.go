package p2p

import (
	"cmp"
	"net"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/status"
)

const (
	// connPart and handshakePart bound the inbound connections of one IP group. A group
	// gets one more only while it has fewer than an eighth (connPart) or a quarter
	// (handshakePart) of the free places.
	connPart      = 8
	handshakePart = 4

	// handshakesOf bounds handshakes: a quarter of max_conns may be in theirs.
	handshakesOf = 4

	// relayedOf bounds relayed connections: half of max_conns.
	relayedOf = 2

	// relayedRate and relayedBurst bound the new connections of each relay: so many a second, and
	// so many at once. maxRelayRates is how many relays have a rate; it is more than the node reserves at.
	relayedRate   = 4
	relayedBurst  = 64
	maxRelayRates = 64

	// reserveOf is the share of max_conns that stays free: a sixteenth. When fewer places
	// are free, each new connection makes the IP group with most connections lose its
	// newest one.
	reserveOf = 16
)

// connShares is the one place that bounds connections, but for those of one peer, which the
// resource manager counts.
//
//   - Dials count only in the total.
//   - A direct inbound connection counts for its address ([addresses]) and for its IP group. So no
//     network takes all of max_conns, and a new peer from another network gets a place.
//     Addresses in no group, such as those of a LAN, have no bound of a group.
//   - A relayed inbound connection counts for the reservation that this node has at its relay, and
//     not for the relay's address: many peers share that. New ones of each relay have a rate. Without
//     a reservation the relay is a stranger that invents peers, and is refused.
type connShares struct {
	conns, handshakes *limits.FairGate[ipgroup.Group]
	relayed           *limits.FairGate[peer.ID]  // by relay
	relayedRate       *limits.KeyedRate[peer.ID] // by relay
	addresses         *addresses
	reserved          func(relay peer.ID) bool
	failures          *handshakeFailures

	closers sync.WaitGroup            // one for each connection in closing
	mu      sync.Mutex                // lock: leaf
	closing map[network.Conn]struct{} // connections being closed to free places
}

func newConnShares(c Config, registry *limits.Registry, reserved func(relay peer.ID) bool) *connShares {
	return &connShares{
		relayedRate: limits.NewKeyedRate[peer.ID](registry, limits.Spec{
			Name: "listen.relayed_rate", Path: "peers → one relay → new connections", Policy: "refused", Each: "relay",
		}, relayedRate, relayedBurst, maxRelayRates),
		closing: map[network.Conn]struct{}{}, addresses: newAddresses(c, registry), reserved: reserved,
		relayed: limits.NewFairGate[peer.ID](registry, limits.Spec{
			Name: "listen.relayed", Path: "peers → a relay → connections",
			Policy: "refused; one relay has half of the places at most",
		}, int64(c.relayed()), 1),
		conns: limits.NewFairGate[ipgroup.Group](registry, limits.Spec{
			Name: "listen.conns", Path: "peers and dials → connections",
			Policy: "one IP group has an eighth of the free places at most; when a sixteenth is left, the group " +
				"with most loses its newest",
		}, int64(c.MaxConns), connPart),
		handshakes: limits.NewFairGate[ipgroup.Group](registry, limits.Spec{
			Name: "listen.handshakes", Path: "peers → connections in their handshake",
			Policy: "refused; one IP group has a quarter of the free places at most",
		}, int64(c.handshakes()), handshakePart),
	}
}

// handshakes returns how many inbound connections may be in their handshake: a quarter of
// MaxConns and at least 32, but no more than MaxConns.
func (c Config) handshakes() int { return max(c.MaxConns/handshakesOf, min(32, c.MaxConns)) }

// relayed returns how many inbound connections may come through relays.
func (c Config) relayed() int { return max(1, c.MaxConns/relayedOf) }

// errNoReservation refuses a connection through a relay at which this node has no reservation.
var errNoReservation = status.Errorf(status.Quota, "this node has no reservation at that relay")

// sharedManager is a resource manager that asks connShares first.
type sharedManager struct {
	network.ResourceManager
	shares *connShares
}

// OpenConnection implements network.ResourceManager.
func (m *sharedManager) OpenConnection(dir network.Direction, usefd bool,
	endpoint ma.Multiaddr) (network.ConnManagementScope, error) {
	c := &sharedConn{shares: m.shares, inbound: dir == network.DirInbound, endpoint: endpoint}
	if err := c.enter(); err != nil {
		c.leave()
		return nil, limited(err)
	}
	scope, err := m.ResourceManager.OpenConnection(dir, usefd, endpoint)
	if err != nil {
		c.leave()
		return nil, err
	}
	c.ConnManagementScope = scope
	return c, nil
}

// VerifySourceAddress implements network.ResourceManager.
func (m *sharedManager) VerifySourceAddress(addr net.Addr) bool {
	return m.shares.addresses.verify(addr)
}

// limited wraps err so that the library reports it to the other side as a resource limit.
func limited(err error) error { return &limitError{err} }

type limitError struct{ error }

// Is implements errors.Is's interface.
func (*limitError) Is(target error) bool { return target == network.ErrResourceLimitExceeded }

// Unwrap returns the error of the limit.
func (e *limitError) Unwrap() error { return e.error }

// sharedConn is the scope of a connection that connShares has admitted.
type sharedConn struct {
	network.ConnManagementScope
	shares   *connShares
	inbound  bool
	endpoint ma.Multiaddr

	mu          sync.Mutex // lock: leaf
	inHandshake bool
	leaves      []func() // give back its places
	handshaken  func()   // gives back its place in shares.handshakes; nil: it has none
}

// enter takes the places that the connection needs. After an error the caller calls leave.
func (c *sharedConn) enter() error {
	s := c.shares
	group := ipgroup.Group("")
	relay, relayed := relayOf(c.endpoint)
	switch {
	case !c.inbound:
	case relayed && !s.reserved(relay):
		return errNoReservation
	case relayed:
		if err := s.allowRelayed(relay); err != nil {
			return err
		}
		if err := s.relayed.Enter(relay); err != nil {
			return err
		}
		c.leaves = append(c.leaves, func() { s.relayed.Leave(relay) })
	default:
		group = ipgroup.Of(c.endpoint)
		leave, err := s.addresses.enter(c.endpoint)
		if err != nil {
			return err
		}
		c.leaves = append(c.leaves, leave)
	}
	if err := s.conns.Enter(group); err != nil {
		return err
	}
	c.leaves = append(c.leaves, func() { s.conns.Leave(group) })
	if c.inbound && !relayed {
		if err := s.handshakes.Enter(group); err != nil {
			return err
		}
		c.handshaken = func() { s.handshakes.Leave(group) }
	}
	c.inHandshake = c.inbound
	return nil
}

// allowRelayed takes a token for a new connection through a relay.
func (s *connShares) allowRelayed(relay peer.ID) error {
	return s.relayedRate.Of(relay).Allow()
}

// relayOf returns the relay of a relayed address; it is empty if the address does not name it.
func relayOf(a ma.Multiaddr) (relay peer.ID, relayed bool) {
	i := slices.IndexFunc(a, func(c ma.Component) bool { return c.Code() == ma.P_CIRCUIT })
	if i < 0 {
		return "", false
	}
	_, relay = peer.SplitAddr(a[:i])
	return relay, true
}

// groupOf returns the group by which connections are closed when few places are free: the relay of
// a relayed one, else the IP group.
func groupOf(c network.Conn) ipgroup.Group {
	if relay, relayed := relayOf(c.RemoteMultiaddr()); relayed {
		return ipgroup.Group("relay " + relay)
	}
	return ipgroup.Of(c.RemoteMultiaddr())
}

// SetPeer implements network.ConnManagementScope. The library calls it when the handshake
// is over.
func (c *sharedConn) SetPeer(p peer.ID) error {
	err := c.ConnManagementScope.SetPeer(p)
	if err == nil {
		c.mu.Lock()
		handshaken := c.endHandshake()
		c.mu.Unlock()
		handshaken()
	}
	return err
}

// Done implements network.ResourceScopeSpan.
func (c *sharedConn) Done() {
	c.ConnManagementScope.Done()
	if c.leave() {
		c.shares.failures.failed(c.endpoint)
	}
}

// leave gives the connection's places back, and reports whether it was in its handshake. Calls
// after the first do nothing.
func (c *sharedConn) leave() (inHandshake bool) {
	c.mu.Lock()
	inHandshake = c.inHandshake
	handshaken := c.endHandshake()
	leaves := c.leaves
	c.leaves = nil
	c.mu.Unlock()
	handshaken()
	for _, leave := range leaves {
		leave()
	}
	return inHandshake
}

// endHandshake returns what gives the place in shares.handshakes back, if the connection still has it. The caller
// holds c.mu, and calls the function without it.
func (c *sharedConn) endHandshake() (handshaken func()) {
	c.inHandshake = false
	if handshaken = c.handshaken; handshaken == nil {
		return func() {}
	}
	c.handshaken = nil
	return handshaken
}

// keepReserve closes one connection for each new one while fewer than reserve places are
// free: the newest inbound connection of the IP group that has most, if that group has
// several. The new connection does not wait for this, because closing a connection to a
// peer that does not read takes seconds.
func (s *connShares) keepReserve(h host.Host, reserve int64) {
	h.Network().Notify(&network.NotifyBundle{ConnectedF: func(n network.Network, _ network.Conn) {
		if s.conns.Free() >= reserve {
			return
		}
		if c := s.pick(n.Conns(), h.ConnManager()); c != nil {
			s.closers.Go(func() {
				defer s.closed(c)
				_ = c.CloseWithError(network.ConnResourceLimitExceeded) // it is closed despite an error
			})
		}
	}})
}

// pick returns the connection to close, nil if there is none. It marks the connection as
// closing, so no other call returns it. The caller closes it and then calls closed.
func (s *connShares) pick(conns []network.Conn, cm connmgr.ConnManager) network.Conn {
	s.mu.Lock()
	open := slices.DeleteFunc(conns, func(c network.Conn) bool {
		_, closing := s.closing[c]
		return closing
	})
	s.mu.Unlock()
	c := surplus(open, cm)
	if c == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, closing := s.closing[c]; closing {
		return nil // a concurrent call picked it
	}
	s.closing[c] = struct{}{}
	return c
}

// closed removes the mark that pick has set.
func (s *connShares) closed(c network.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.closing, c)
}

// surplus returns the newest inbound connection of the IP group with most of them, or nil
// if no group has several. Protected peers do not count.
func surplus(conns []network.Conn, cm connmgr.ConnManager) (out network.Conn) {
	count := map[ipgroup.Group]int{}
	newest := map[ipgroup.Group]network.Conn{}
	for _, c := range conns {
		g := groupOf(c)
		if g == "" || c.Stat().Direction != network.DirInbound || cm.IsProtected(c.RemotePeer(), "") {
			continue
		}
		count[g]++
		if last := newest[g]; last == nil || c.Stat().Opened.After(last.Stat().Opened) {
			newest[g] = c
		}
	}
	var most ipgroup.Group
	for g, n := range count {
		if n > 1 && cmp.Or(cmp.Compare(n, count[most]), cmp.Compare(g, most)) > 0 {
			most = g
		}
	}
	return newest[most]
}
