package p2p

import (
	"cmp"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/ipgroup"
	"allium/internal/limits"
)

const (
	// connPart and handshakePart bound the inbound connections of one IP group. A group
	// gets one more only while it has fewer than an eighth (connPart) or a quarter
	// (handshakePart) of the free places.
	connPart      = 8
	handshakePart = 4

	// handshakesOf bounds handshakes: a quarter of max_conns may be in theirs.
	handshakesOf = 4

	// reserveOf is the share of max_conns that stays free: a sixteenth. When fewer places
	// are free, each new connection makes the IP group with most connections lose its
	// newest one.
	reserveOf = 16
)

// connShares bounds the connections by IP group. So no network takes all of max_conns, and
// a new peer from another network gets a place. Dials, and connections from addresses in
// no group such as loopback, count only in the total. A relayed connection counts for the
// group of its relay.
type connShares struct {
	conns, handshakes *limits.FairGate[ipgroup.Group]
	failures          *handshakeFailures

	closers sync.WaitGroup // one for each connection in closing
	mu      sync.Mutex
	closing map[network.Conn]struct{} // connections being closed to free places
}

func newConnShares(c Config, registry *limits.Registry) *connShares {
	return &connShares{
		closing: map[network.Conn]struct{}{},
		conns: limits.NewFairGate[ipgroup.Group](registry, limits.Spec{
			Name: "listen.conns", Path: "peers and dials → connections",
			Policy: "one IP group has an eighth of the free places at most; when a sixteenth is left, the group with most " +
				"loses its newest",
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

// sharedManager is a resource manager that asks connShares first.
type sharedManager struct {
	network.ResourceManager
	shares *connShares
}

// OpenConnection implements network.ResourceManager.
func (m *sharedManager) OpenConnection(dir network.Direction, usefd bool,
	endpoint ma.Multiaddr) (network.ConnManagementScope, error) {
	c := &sharedConn{shares: m.shares, inbound: dir == network.DirInbound, endpoint: endpoint}
	if c.inbound {
		c.group = ipgroup.Of(endpoint)
	}
	if err := m.shares.conns.Enter(c.group); err != nil {
		return nil, limited(err)
	}
	if c.inbound {
		if err := m.shares.handshakes.Enter(c.group); err != nil {
			m.shares.conns.Leave(c.group)
			return nil, limited(err)
		}
		c.inHandshake = true
	}
	scope, err := m.ResourceManager.OpenConnection(dir, usefd, endpoint)
	if err != nil {
		c.leave()
		return nil, err
	}
	c.ConnManagementScope = scope
	return c, nil
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
	group    ipgroup.Group
	inbound  bool
	endpoint ma.Multiaddr

	mu          sync.Mutex
	inHandshake bool // has a place in shares.handshakes
	left        bool // has given its place in shares.conns back
}

// SetPeer implements network.ConnManagementScope. The library calls it when the handshake
// is over.
func (c *sharedConn) SetPeer(p peer.ID) error {
	err := c.ConnManagementScope.SetPeer(p)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endHandshake()
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
	defer c.mu.Unlock()
	inHandshake = c.inHandshake
	c.endHandshake()
	if !c.left {
		c.left = true
		c.shares.conns.Leave(c.group)
	}
	return inHandshake
}

// endHandshake gives the place in shares.handshakes back. The caller holds c.mu.
func (c *sharedConn) endHandshake() {
	if c.inHandshake {
		c.inHandshake = false
		c.shares.handshakes.Leave(c.group)
	}
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
		g := ipgroup.Of(c.RemoteMultiaddr())
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
