package p2p

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
)

// TestNetworksShareConnections: however many addresses of one network, or of
// several, open all the connections they may, or leave them in their handshake,
// one from another network finds a place; so does a dial.
func TestNetworksShareConnections(t *testing.T) {
	for _, test := range []struct {
		name       string
		addr       string // of a network and a host
		networks   int
		handshakes bool // none comes to its end
	}{
		{"one /16", "/ip4/66.%d.%d.1/tcp/1", 1, false},
		{"one IPv6 /32", "/ip6/3fff:%x:%x00::1/tcp/1", 1, false},
		{"8 of /16", "/ip4/66.%d.%d.1/tcp/1", 8, false},
		{"handshakes of one /16", "/ip4/66.%d.%d.1/tcp/1", 1, true},
		{"handshakes of 4 of /16", "/ip4/66.%d.%d.1/tcp/1", 4, true},
		{"one relay", "/ip4/66.%d.0.1/tcp/%d/p2p/12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5/p2p-circuit", 1,
			false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := DefaultConfig()
			registry := limits.NewRegistry(nil)
			rm, err := c.newResourceManager(false, newConnShares(c, registry, func(peer.ID) bool { return true }))
			if err != nil {
				t.Fatal(err)
			}
			defer rm.Close()
			var scopes []network.ConnManagementScope
			open := func(addr string, p peer.ID, dir network.Direction) error {
				scope, err := rm.OpenConnection(dir, false, ma.StringCast(addr))
				if err != nil {
					return err
				}
				scopes = append(scopes, scope)
				if test.handshakes && p != "newcomer" {
					return nil
				}
				return scope.SetPeer(p)
			}
			in := 0
			for i := range 64 * test.networks {
				for range c.MaxConnsPerIP {
					if open(fmt.Sprintf(test.addr, i%test.networks, 1+i/test.networks), peer.ID(fmt.Sprint("sybil", i)),
						network.DirInbound) == nil {
						in++
					}
				}
			}
			if in == 0 || in >= c.MaxConns {
				t.Errorf("%d of %d connections", in, c.MaxConns)
			}
			if err := open("/ip4/8.8.8.8/tcp/1", "newcomer", network.DirInbound); err != nil {
				t.Errorf("beside %d connections: %v", in, err)
			}
			if err := open("/ip4/8.8.8.8/tcp/1", "newcomer", network.DirOutbound); err != nil {
				t.Errorf("a dial beside %d connections: %v", in, err)
			}
			for _, s := range scopes {
				s.Done()
				s.Done() // changes nothing
			}
			for _, l := range registry.Snapshot() {
				if l.Current != 0 || l.Peak == 0 && l.Name == "listen.conns" {
					t.Errorf("%s is %d after %d", l.Name, l.Current, l.Peak)
				}
			}
		})
	}
}

// fakeConn is a connection as surplus sees it.
type fakeConn struct {
	network.Conn
	peer   peer.ID
	addr   ma.Multiaddr
	dir    network.Direction
	opened time.Time
}

func (c *fakeConn) RemotePeer() peer.ID           { return c.peer }
func (c *fakeConn) RemoteMultiaddr() ma.Multiaddr { return c.addr }
func (c *fakeConn) Stat() network.ConnStats {
	return network.ConnStats{Stats: network.Stats{Direction: c.dir, Opened: c.opened}}
}

type protecting struct{ connmgr.NullConnMgr }

func (protecting) IsProtected(p peer.ID, _ string) bool { return p == "protected" }

// TestSurplus: the group with most inbound connections loses its newest.
func TestSurplus(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	conn := func(id peer.ID, addr string, dir network.Direction, age time.Duration) network.Conn {
		return &fakeConn{peer: id, addr: ma.StringCast(addr), dir: dir, opened: at.Add(-age)}
	}
	in, out := network.DirInbound, network.DirOutbound
	conns := []network.Conn{
		conn("a", "/ip4/66.1.0.1/tcp/1", in, 3), conn("b", "/ip4/66.1.0.2/tcp/1", in, 2),
		conn("protected", "/ip4/66.1.0.3/tcp/1", in, 1), conn("c", "/ip4/66.1.0.3/tcp/1", in, 4),
		conn("d", "/ip4/8.8.0.1/tcp/1", in, 0), conn("e", "/ip4/8.8.0.2/tcp/1", in, 9),
		conn("f", "/ip4/9.9.0.1/tcp/1", out, 0), conn("g", "/ip4/9.9.0.2/tcp/1", out, 0),
		conn("h", "/ip4/9.9.0.3/tcp/1", out, 0), conn("i", "/ip4/9.9.0.3/tcp/1", out, 0),
		conn("j", "/ip4/127.0.0.1/tcp/1", in, 0), conn("k", "/ip4/127.0.0.1/tcp/1", in, 0),
		conn("l", "/ip4/127.0.0.1/tcp/1", in, 0), conn("m", "/ip4/127.0.0.1/tcp/1", in, 0),
	}
	if c := surplus(conns, protecting{}); c == nil || c.RemotePeer() != "b" {
		t.Errorf("closed %+v", c)
	}
	if c := surplus(conns[4:5], protecting{}); c != nil {
		t.Errorf("closed the only one of its group, %+v", c)
	}
}

// stuckConn is a connection to a peer that does not read, so that closing it
// takes until release is closed.
type stuckConn struct {
	fakeConn
	release chan struct{}
	closed  chan struct{}
}

func (c *stuckConn) CloseWithError(network.ConnErrorCode) error {
	close(c.closed)
	<-c.release
	return nil
}

// fullNetwork has conns and tells one notifiee of others.
type fullNetwork struct {
	network.Network
	conns []network.Conn
	told  network.Notifiee
}

func (n *fullNetwork) Conns() []network.Conn     { return slices.Clone(n.conns) }
func (n *fullNetwork) Notify(o network.Notifiee) { n.told = o }

type fullHost struct {
	host.Host
	net *fullNetwork
}

func (h fullHost) Network() network.Network       { return h.net }
func (fullHost) ConnManager() connmgr.ConnManager { return connmgr.NullConnMgr{} }

// TestStuckConnections: while few places are free, each new connection closes another old
// one, and does not wait until one whose peer does not read is closed.
func TestStuckConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		s := newConnShares(c, nil, nil)
		for range c.MaxConns {
			if err := s.conns.Enter(""); err != nil {
				t.Fatal(err)
			}
		}
		release := make(chan struct{})
		n := &fullNetwork{}
		var stuck []*stuckConn
		for i := range 4 {
			c := &stuckConn{fakeConn{
				peer: peer.ID(fmt.Sprint(i)), addr: ma.StringCast("/ip4/66.1.0.1/tcp/1"), dir: network.DirInbound,
				opened: time.Now().Add(time.Duration(i)),
			}, release, make(chan struct{})}
			stuck, n.conns = append(stuck, c), append(n.conns, c)
		}
		s.keepReserve(fullHost{net: n}, 1)
		came := make(chan struct{})
		go func() {
			defer close(came)
			for range 3 {
				n.told.Connected(n, nil)
			}
		}()
		synctest.Wait()
		select {
		case <-came:
		default:
			t.Error("who comes waits for a peer that does not read")
		}
		for i, c := range stuck {
			select {
			case <-c.closed:
				if i == 0 {
					t.Error("the last one of a group is closed")
				}
			default:
				if i > 0 {
					t.Errorf("connection %d is not closed", i)
				}
			}
		}
		close(release)
		<-came
		s.closers.Wait()
		if len(s.closing) != 0 {
			t.Errorf("%d connections are still being closed", len(s.closing))
		}
	})
}

// TestConnectionsLeave: a connection that ends gives its place back, on either
// transport and at both ends.
func TestConnectionsLeave(t *testing.T) {
	registry := limits.NewRegistry(nil)
	server := build(t, testnetConfig(t), Deps{Env: env.Env{Limits: registry}})
	ctx := timeout(t)
	count := func() (conns, handshakes int64) {
		for _, l := range registry.Snapshot() {
			switch l.Name {
			case "listen.conns":
				conns = l.Current
			case "listen.handshakes":
				handshakes = l.Current
			}
		}
		return conns, handshakes
	}
	until := func(want int64) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d connections and no handshakes", want), func() bool {
			conns, handshakes := count()
			return conns == want && handshakes == 0
		})
	}
	for _, a := range server.Addrs() {
		client := build(t, testnetConfig(t), Deps{})
		if err := client.Connect(ctx, peer.AddrInfo{ID: server.ID(), Addrs: []ma.Multiaddr{a}}); err != nil {
			t.Fatal(err)
		}
		until(1)
		if err := client.Network().ClosePeer(server.ID()); err != nil {
			t.Fatal(err)
		}
		until(0)
	}
}
