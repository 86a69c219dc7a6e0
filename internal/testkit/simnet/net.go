// Package simnet is a network of libp2p hosts in virtual time. Only tests import it,
// in a testing/synctest bubble.
package simnet

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/x/simlibp2p"
	"github.com/marcopolo/simnet"
)

// Lost is the delay of a packet that never arrives.
const Lost = 24 * time.Hour

// Net is a network. Packets between hosts that are not on one side of a partition
// are lost.
type Net struct {
	Hosts []host.Host

	t    testing.TB
	net  *simnet.Simnet
	side sync.Map // address → side of a partition
}

// New returns a network without hosts. delay is how long a packet is on its way
// between two addresses, such as 20.0.0.1:8000.
func New(t testing.TB, delay func(from, to string) time.Duration) *Net {
	useOneProcessor(t)
	n := &Net{t: t}
	n.net = &simnet.Simnet{Logger: slog.New(slog.DiscardHandler), LatencyFunc: func(p *simnet.Packet) time.Duration {
		from, to := p.From.String(), p.To.String()
		a, _ := n.side.Load(from)
		b, _ := n.side.Load(to)
		if a != b {
			return Lost
		}
		return delay(from, to)
	}}
	return n
}

// Add makes a host with that identity at an IPv4 address, over links of 100 Mbit/s.
func (n *Net) Add(key crypto.PrivKey, ip string, opts ...libp2p.Option) host.Host {
	n.t.Helper()
	link := simnet.LinkSettings{BitsPerSecond: 100 * simlibp2p.OneMbps}
	h, err := libp2p.New(append(opts, libp2p.Identity(key),
		libp2p.ListenAddrStrings(fmt.Sprintf("/ip4/%s/udp/8000/quic-v1", ip)),
		simlibp2p.QUICSimnet(n.net, simnet.NodeBiDiLinkSettings{Downlink: link, Uplink: link}),
		// There is no TCP beside QUIC, so nothing is won by not dialling for a while when all of it fails.
		libp2p.UDPBlackHoleSuccessCounter(nil),
		libp2p.DisableIdentifyAddressDiscovery(),
		libp2p.DisableMetrics(), libp2p.ForceReachabilityPublic(),
		libp2p.ResourceManager(&network.NullResourceManager{}))...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.Hosts = append(n.Hosts, h)
	return h
}

// Start lets packets pass.
func (n *Net) Start() { n.net.Start() }

// Close closes the hosts and the network.
func (n *Net) Close() {
	time.Sleep(time.Second)
	for _, h := range n.Hosts {
		_ = h.Close()
	}
	n.net.Close()
}

// Connect connects host i to host j.
func (n *Net) Connect(i, j int) {
	n.t.Helper()
	if err := n.Hosts[i].Connect(n.t.Context(), peer.AddrInfo{ID: n.Hosts[j].ID(),
		Addrs: n.Hosts[j].Addrs()}); err != nil {
		n.t.Fatal(err)
	}
}

// Socket is the address of a host as packets carry it.
func (n *Net) Socket(i int) string {
	n.t.Helper()
	ip, err := n.Hosts[i].Addrs()[0].ValueForProtocol(4)
	if err != nil {
		n.t.Fatal(err)
	}
	return net.JoinHostPort(ip, "8000")
}

// Split puts a host on a side of a partition; nil is where all begin.
func (n *Net) Split(i int, side any) { n.side.Store(n.Socket(i), side) }
