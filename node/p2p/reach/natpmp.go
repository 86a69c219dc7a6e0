package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	natpmp "github.com/jackpal/go-nat-pmp"
	"github.com/libp2p/go-libp2p/core/network"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-netroute"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	pmpTimeout  = 2 * time.Second  // of one question to the router
	pmpLease    = time.Hour        // for which a port is asked
	pmpRenew    = 20 * time.Minute // between two requests for the same ports
	pmpRetry    = 2 * time.Minute  // until a router that did not answer is asked again
	pmpMaxPorts = 8                // ports that are asked for
)

// portMapper asks the router for ports: by UPnP, as the library does, and by NAT-PMP (RFC 6886). The library's own
// client of NAT-PMP finds no router on Linux: it looks for the route to 0.0.0.0, which go-netroute 0.4 refuses.
type portMapper struct {
	basichost.NATManager // by UPnP

	net network.Network

	mu    sync.Mutex                // lock: leaf
	ports map[portOf]netip.AddrPort // at the router
}

// portOf is a port on which this node listens.
type portOf struct {
	protocol string // "tcp" or "udp"
	port     uint16
}

func newPortMapper(n network.Network) *portMapper {
	return &portMapper{NATManager: basichost.NewNATManager(n), net: n}
}

// run asks for the ports and renews them until ctx ends, and gives them back then. It asks again soon when the
// addresses have changed. found is called when the router maps a port.
func (m *portMapper) run(ctx context.Context, found func()) {
	listening := make(chan struct{}, 1)
	changed := func(network.Network, ma.Multiaddr) {
		select {
		case listening <- struct{}{}:
		default:
		}
	}
	hear := &network.NotifyBundle{ListenF: changed, ListenCloseF: changed}
	m.net.Notify(hear)
	defer m.net.StopNotify(hear)
	defer m.giveBack()
	for {
		wait := pmpRetry
		if m.ask(ctx) {
			wait = pmpRenew
			found()
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-listening:
		case <-t.C:
		}
		t.Stop()
	}
}

// ask asks the router for the ports on which the node listens, and reports whether it maps one.
func (m *portMapper) ask(ctx context.Context) bool {
	wanted := mappable(m.net.ListenAddresses())
	if len(wanted) == 0 {
		return false
	}
	router, err := defaultRouter()
	if err != nil {
		return false
	}
	got := map[portOf]netip.AddrPort{}
	c := natpmp.NewClientWithTimeout(router, pmpTimeout)
	if outside, err := c.GetExternalAddress(); err == nil {
		ip := netip.AddrFrom4(outside.ExternalIPAddress)
		for p := range wanted {
			if ctx.Err() != nil {
				break
			}
			answer, err := c.AddPortMapping(p.protocol, int(p.port), int(p.port), int(pmpLease/time.Second))
			if err == nil && answer.MappedExternalPort != 0 {
				got[p] = netip.AddrPortFrom(ip, answer.MappedExternalPort)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports = got
	return len(got) > 0
}

// defaultRouter returns the private address of the router to the Internet.
func defaultRouter() (net.IP, error) {
	table, err := netroute.New()
	if err != nil {
		return nil, err
	}
	_, router, _, err := table.Route(net.IPv4(1, 1, 1, 1)) // any public address; nothing is sent there
	if err == nil && (router == nil || !router.IsPrivate()) {
		err = errors.New("there is no router with a private address")
	}
	return router, err
}

// mappable returns the IPv4 ports of listen addresses that a router can map, at most pmpMaxPorts.
func mappable(addrs []ma.Multiaddr) map[portOf]struct{} {
	all := map[portOf]struct{}{}
	for _, a := range addrs {
		if p, _, ok := portAt(a); ok && len(all) < pmpMaxPorts {
			all[p] = struct{}{}
		}
	}
	return all
}

// portAt returns the port of a listen address that a router can map, and what follows it in the address.
func portAt(a ma.Multiaddr) (p portOf, rest ma.Multiaddr, ok bool) {
	if len(a) < 2 || a[0].Code() != ma.P_IP4 {
		return p, nil, false
	}
	at, err := manet.ToNetAddr(a[:2])
	if err != nil {
		return p, nil, false
	}
	whole, err := netip.ParseAddrPort(at.String())
	if err != nil || !whole.Addr().IsUnspecified() && !whole.Addr().IsPrivate() {
		return p, nil, false
	}
	return portOf{at.Network(), whole.Port()}, a[2:], true
}

// GetMapping implements basichost.NATManager: the address of the router at which a listen address is reached, nil
// for none.
func (m *portMapper) GetMapping(a ma.Multiaddr) ma.Multiaddr {
	if at := m.NATManager.GetMapping(a); at != nil {
		return at
	}
	p, rest, ok := portAt(a)
	if !ok {
		return nil
	}
	m.mu.Lock()
	outside, ok := m.ports[p]
	m.mu.Unlock()
	if !ok {
		return nil
	}
	var at net.Addr = net.TCPAddrFromAddrPort(outside)
	if p.protocol == "udp" {
		at = net.UDPAddrFromAddrPort(outside)
	}
	mapped, err := manet.FromNetAddr(at)
	if err != nil {
		return nil
	}
	return ma.Join(mapped, rest)
}

// HasDiscoveredNAT implements basichost.NATManager.
func (m *portMapper) HasDiscoveredNAT() bool {
	m.mu.Lock()
	mapped := len(m.ports) > 0
	m.mu.Unlock()
	return mapped || m.NATManager.HasDiscoveredNAT()
}

// giveBack ends the mappings. It waits for at most one answer that does not come.
func (m *portMapper) giveBack() {
	m.mu.Lock()
	ports := m.ports
	m.ports = nil
	m.mu.Unlock()
	router, err := defaultRouter()
	if err != nil {
		return
	}
	c := natpmp.NewClientWithTimeout(router, pmpTimeout/4)
	for p := range ports {
		if _, err := c.AddPortMapping(p.protocol, int(p.port), 0, 0); err != nil {
			return // the leases end by themselves
		}
	}
}
