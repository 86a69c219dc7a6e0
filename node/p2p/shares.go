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
	// connPart and handshakePart bound the inbound connections of one IP group: it
	// may have one more only while it has fewer than that part of the free places.
	connPart      = 8
	handshakePart = 4

	// handshakesOf is the part of max_conns that may be in their handshake.
	handshakesOf = 4

	// reserveOf is the part of max_conns that is kept free: when less is, the IP
	// group with most connections loses its newest for each that comes.
	reserveOf = 16
)

// connShares bound connections by the IP group that they come from, so that no
// network takes all of max_conns and a newcomer from another finds a place.
// Dials and connections from addresses in no group, such as loopback, count in
// the total alone. A relayed connection counts as its relay's.
type connShares struct {
	conns, handshakes *limits.Portions[ipgroup.Group]

	closers sync.WaitGroup // one for each connection in closing
	mu      sync.Mutex
	closing map[network.Conn]struct{} // being closed to make room
}

func newConnShares(c Config, registry *limits.Registry) *connShares {
	return &connShares{
		closing: map[network.Conn]struct{}{},
		conns: limits.NewPortions[ipgroup.Group](registry, limits.Spec{
			Name: "listen.conns", Path: "peers and dials → connections", Policy: "one IP group has an eighth of the free places at most; when a sixteenth is left, the group with most loses its newest",
		}, int64(c.MaxConns), connPart),
		handshakes: limits.NewPortions[ipgroup.Group](registry, limits.Spec{
			Name: "listen.handshakes", Path: "peers → connections in their handshake", Policy: "refused; one IP group has a quarter of the free places at most",
		}, int64(c.handshakes()), handshakePart),
	}
}

// handshakes is how many inbound connections may be in their handshake.
func (c Config) handshakes() int { return max(c.MaxConns/handshakesOf, min(32, c.MaxConns)) }

// sharedManager is a resource manager that asks connShares first.
type sharedManager struct {
	network.ResourceManager
	shares *connShares
}

// OpenConnection implements network.ResourceManager.
func (m *sharedManager) OpenConnection(dir network.Direction, usefd bool, endpoint ma.Multiaddr) (network.ConnManagementScope, error) {
	c := &sharedConn{shares: m.shares, inbound: dir == network.DirInbound}
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
		c.shaking = true
	}
	scope, err := m.ResourceManager.OpenConnection(dir, usefd, endpoint)
	if err != nil {
		c.leave()
		return nil, err
	}
	c.ConnManagementScope = scope
	return c, nil
}

// limited makes err one that the library tells the other side as a limit.
func limited(err error) error { return &limitError{err} }

type limitError struct{ error }

// Is implements errors.Is's interface.
func (*limitError) Is(target error) bool { return target == network.ErrResourceLimitExceeded }

// Unwrap returns what the limit said.
func (e *limitError) Unwrap() error { return e.error }

// sharedConn is the scope of a connection that has a place.
type sharedConn struct {
	network.ConnManagementScope
	shares  *connShares
	group   ipgroup.Group
	inbound bool

	mu      sync.Mutex
	shaking bool // has a place among the handshakes
	left    bool
}

// SetPeer implements network.ConnManagementScope: the handshake is over.
func (c *sharedConn) SetPeer(p peer.ID) error {
	err := c.ConnManagementScope.SetPeer(p)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.shaken()
	}
	return err
}

// Done implements network.ResourceScopeSpan.
func (c *sharedConn) Done() {
	c.ConnManagementScope.Done()
	c.leave()
}

func (c *sharedConn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shaken()
	if !c.left {
		c.left = true
		c.shares.conns.Leave(c.group)
	}
}

// shaken gives the place among the handshakes back. The caller holds c.mu.
func (c *sharedConn) shaken() {
	if c.shaking {
		c.shaking = false
		c.shares.handshakes.Leave(c.group)
	}
}

// keepRoom closes a connection for each that comes while the reserve is not free:
// the newest inbound one of the IP group that has most, if that has several. Who
// comes does not wait for that: to say goodbye to a peer that does not read takes
// seconds.
func (s *connShares) keepRoom(h host.Host, reserve int64) {
	h.Network().Notify(&network.NotifyBundle{ConnectedF: func(n network.Network, _ network.Conn) {
		if s.conns.Free() >= reserve {
			return
		}
		if c := s.pick(n.Conns(), h.ConnManager()); c != nil {
			s.closers.Go(func() {
				defer s.closed(c)
				_ = c.CloseWithError(network.ConnResourceLimitExceeded) // it is gone either way
			})
		}
	}})
}

// pick returns the connection to close, which nobody else closes; closed is
// called when that is done.
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
		return nil // another one that came took it meanwhile
	}
	s.closing[c] = struct{}{}
	return c
}

// closed ends what pick began.
func (s *connShares) closed(c network.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.closing, c)
}

// surplus is the connection to close, nil when no group has several.
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
