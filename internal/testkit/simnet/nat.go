package simnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/pnet"
	"github.com/libp2p/go-libp2p/core/transport"
	libp2pquic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/marcopolo/simnet"
	"github.com/quic-go/quic-go"
)

// NAT is the way in which a router translates and filters what its hosts send and receive.
type NAT int

// The types of NAT, from the most open to the most closed.
const (
	None           NAT = iota // no router: a public address
	FullCone                  // one mapping for a socket; lets in everybody
	Restricted                // the same; lets in IP addresses to which the socket has sent
	PortRestricted            // the same; lets in addresses with port to which the socket has sent
	Symmetric                 // one mapping for a socket and a destination, which alone is let in
)

// String returns the name in the documentation.
func (n NAT) String() string {
	return [...]string{"none", "full cone", "restricted", "port-restricted", "symmetric"}[n]
}

// mappingTime is the time that a router remembers a mapping or a destination after the last packet out.
const mappingTime = 2 * time.Minute

// Internet is a network of public addresses and of routers with hosts behind them, in virtual time.
type Internet struct {
	t      testing.TB
	router simnet.VariableLatencyRouter
	close  chan struct{}
	wg     sync.WaitGroup
}

// NewInternet returns a network without hosts, in which a packet takes delay.
func NewInternet(t testing.TB, delay time.Duration) *Internet {
	useOneProcessor(t)
	n := &Internet{t: t, close: make(chan struct{})}
	n.router.LatencyFunc = func(*simnet.Packet) time.Duration { return delay }
	n.router.CloseSignal = n.close
	n.router.Start(&n.wg)
	return n
}

// Close ends the network. The caller has closed its hosts.
func (n *Internet) Close() {
	close(n.close)
	n.wg.Wait()
}

// Router is a router with one public address.
type Router struct {
	n    *Internet
	nat  NAT
	ip   net.IP
	mu   sync.Mutex          // lock: leaf
	next int                 // port of the next mapping
	maps map[string]*mapping // by inner address and, if symmetric, destination
}

// mapping is a port of a router.
type mapping struct {
	r       *Router
	outside *net.UDPAddr
	inside  *simnet.SimConn
	last    time.Time            // of the last packet out
	sent    map[string]time.Time // by destination, with and without port: when a packet was sent to it last
}

// Router returns a router with a public address.
func (n *Internet) Router(nat NAT, ip string) *Router {
	return &Router{n: n, nat: nat, ip: net.ParseIP(ip).To4(), next: 40000, maps: map[string]*mapping{}}
}

// socket returns a host's socket behind a router, or with a public address if that is nil.
func (n *Internet) socket(r *Router, addr *net.UDPAddr) net.PacketConn {
	c := simnet.NewBlockingSimConn(addr)
	if r == nil {
		c.SetUpPacketReceiver(n)
		n.router.AddNode(addr, c)
	} else {
		c.SetUpPacketReceiver(outlet{r, c})
	}
	return c
}

// RecvPacket sends a packet on its way.
func (n *Internet) RecvPacket(p *simnet.Packet) {
	q := *p
	// The router compares addresses by their bytes.
	if to, ok := q.To.(*net.UDPAddr); ok && to.IP.To4() != nil {
		q.To = &net.UDPAddr{IP: to.IP.To4(), Port: to.Port}
	}
	n.router.RecvPacket(&q)
}

// outlet takes what a host behind a router sends.
type outlet struct {
	r    *Router
	from *simnet.SimConn
}

// RecvPacket translates a packet and sends it on.
func (o outlet) RecvPacket(p *simnet.Packet) {
	q := *p
	q.From = o.r.mapFor(o.from, p.To).outside
	o.r.n.RecvPacket(&q)
}

// mapFor returns the mapping for a packet from a socket, which it makes if there is none.
func (r *Router) mapFor(from *simnet.SimConn, to net.Addr) *mapping {
	key := from.UnicastAddr().String()
	if r.nat == Symmetric {
		key += " " + to.String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.maps[key]
	if m == nil {
		r.next++
		m = &mapping{r: r, outside: &net.UDPAddr{IP: r.ip, Port: r.next}, inside: from, sent: map[string]time.Time{}}
		r.maps[key] = m
		r.n.router.AddNode(m.outside, m)
	}
	now := time.Now()
	m.sent[to.String()], m.sent[hostOf(to)] = now, now
	m.last = now
	return m
}

// hostOf returns the IP address of an address.
func hostOf(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		panic(err) // addresses are UDP ones
	}
	return h
}

// RecvPacket lets a packet in, or drops it.
func (m *mapping) RecvPacket(p *simnet.Packet) {
	if m.admits(p.From, time.Now()) {
		m.inside.RecvPacket(p)
	}
}

func (m *mapping) admits(from net.Addr, now time.Time) bool {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	last := m.last
	switch m.r.nat {
	case FullCone:
	case Restricted:
		last = m.sent[hostOf(from)]
	default:
		last = m.sent[from.String()]
	}
	return !last.IsZero() && now.Sub(last) < mappingTime
}

// Transport returns the options of a host with a QUIC socket at ip:port, behind a router or, if that is nil,
// at a public address. The library makes a second host to dial addresses of others (AutoNAT), and that one has
// a socket with the next port.
func (n *Internet) Transport(r *Router, key crypto.PrivKey, ip string, port int) libp2p.Option {
	construct := func(own crypto.PrivKey, psk pnet.PSK, gater connmgr.ConnectionGater, rm network.ResourceManager,
	) (transport.Transport, error) {
		at := port
		if !own.Equals(key) {
			at++
		}
		addr := &net.UDPAddr{IP: net.ParseIP(ip), Port: at}
		if v4 := addr.IP.To4(); v4 != nil {
			addr.IP = v4
		}
		cm, err := quicreuse.NewConnManager(quic.StatelessResetKey{1}, quic.TokenGeneratorKey{1},
			quicreuse.OverrideSourceIPSelector(
				func() (quicreuse.SourceIPSelector, error) { return source(addr.IP), nil }),
			quicreuse.OverrideListenUDP(func(string, *net.UDPAddr) (net.PacketConn, error) {
				return n.socket(r, addr), nil
			}))
		if err != nil {
			return nil, err
		}
		t, err := libp2pquic.NewTransport(own, cm, psk, gater, rm)
		if err != nil {
			return nil, err
		}
		return &ownedTransport{t, cm}, nil
	}
	return libp2p.Transport(construct)
}

// ownedTransport closes its sockets.
type ownedTransport struct {
	transport.Transport
	cm *quicreuse.ConnManager
}

// Close implements io.Closer.
func (t *ownedTransport) Close() error {
	err := t.Transport.(io.Closer).Close()
	return errors.Join(err, t.cm.Close())
}

// source is the address from which a host sends.
type source net.IP

// PreferredSourceIPForDestination implements quicreuse.SourceIPSelector.
func (s source) PreferredSourceIPForDestination(*net.UDPAddr) (net.IP, error) { return net.IP(s), nil }
