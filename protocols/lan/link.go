package lan

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/ipv4"

	"allium/internal/jitter"
	"allium/internal/limits"
)

const (
	askEvery    = time.Minute            // interval of queries, ± 20 %
	askAgain    = time.Second            // when the first query is repeated
	answerAfter = 100 * time.Millisecond // longest wait before an answer, so that not all answer at once
	answerGap   = time.Second            // shortest time between two announcements
	sendTimeout = time.Second

	maxInterfaces = 16 // interfaces in use
)

var group = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}

// netInterface is an interface of this machine with a private address.
type netInterface struct {
	net.Interface
	nets []netip.Prefix // the networks of all its addresses, at most maxAddrs
}

// interfaces returns the interfaces to use: up, for multicast, not loopback, and with a private address.
func interfaces() ([]netInterface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	var use []netInterface
	for _, i := range all {
		const need = net.FlagUp | net.FlagMulticast
		if i.Flags&need != need || i.Flags&(net.FlagLoopback|net.FlagPointToPoint) != 0 || len(use) == maxInterfaces {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		if nets := privateNets(addrs); len(nets) > 0 {
			use = append(use, netInterface{i, nets})
		}
	}
	return use, nil
}

// privateNets returns the private networks of addresses, and none if there is none of IPv4.
func privateNets(addrs []net.Addr) (nets []netip.Prefix) {
	v4 := false
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || len(nets) == maxAddrs {
			continue
		}
		if local := p.Addr().Is4() && p.Addr().IsLinkLocalUnicast(); !local && !p.Addr().IsPrivate() {
			continue
		}
		v4 = v4 || p.Addr().Is4()
		nets = append(nets, p.Masked())
	}
	if !v4 {
		return nil
	}
	return nets
}

func (i netInterface) equal(o netInterface) bool {
	return i.Index == o.Index && i.Name == o.Name && slices.Equal(i.nets, o.nets)
}

// link is one interface on which the service listens.
type link struct {
	s      *Service
	at     netInterface
	conn   *ipv4.PacketConn
	rate   *limits.Rate
	answer chan struct{} // tells send to announce this node
	end    context.CancelFunc
}

// open opens the socket of a link.
func open(at netInterface) (*ipv4.PacketConn, error) {
	c, err := net.ListenMulticastUDP("udp4", &at.Interface, group)
	if err != nil {
		return nil, err
	}
	p := ipv4.NewPacketConn(c)
	// Loopback: two nodes on one machine find each other.
	for _, set := range []func() error{
		func() error { return p.SetControlMessage(ipv4.FlagInterface, true) },
		func() error { return p.SetMulticastInterface(&at.Interface) },
		func() error { return p.SetMulticastLoopback(true) },
		func() error { return p.SetMulticastTTL(255) },
	} {
		if err := set(); err != nil {
			_ = p.Close()
			return nil, err
		}
	}
	return p, nil
}

// receive reads packets until the socket is closed.
func (l *link) receive() {
	p := make([]byte, maxPacket)
	for {
		n, from, src, err := l.conn.ReadFrom(p)
		if err != nil {
			return // closed, or the interface is gone: the next scan opens it again
		}
		at, ok := src.(*net.UDPAddr)
		if !ok || from == nil || from.IfIndex != l.at.Index {
			continue // a socket hears the group on all interfaces that the machine joined
		}
		if !l.rate.Take() {
			l.s.m.packets.WithLabelValues("dropped").Inc()
			continue
		}
		l.s.m.packets.WithLabelValues(l.handle(at.AddrPort().Addr().Unmap(), p[:n])).Inc()
	}
}

// handle handles one packet and returns what it was, for the metric.
func (l *link) handle(from netip.Addr, p []byte) string {
	if !contains(l.at.nets, from) {
		return "elsewhere"
	}
	asks, found, err := parse(p)
	switch {
	case err != nil:
		return "malformed"
	case asks:
		l.announceSoon()
		return "query"
	case found.id == "" || found.id == l.s.self:
		return "other"
	}
	found.addrs = within(found.addrs, l.at.nets)
	return l.s.sighted(found)
}

// announceSoon makes send announce this node.
func (l *link) announceSoon() {
	select {
	case l.answer <- struct{}{}:
	default: // it will
	}
}

// send sends queries and announcements until ctx ends, and then that the node is leaving.
func (l *link) send(ctx context.Context) {
	asks := 0
	next := time.NewTimer(0)
	defer next.Stop()
	var told time.Time
	for {
		select {
		case <-ctx.Done():
			l.write(l.s.announcement(l.at, true))
			return
		case <-next.C:
			l.write(query())
			if asks++; asks == 1 {
				next.Reset(askAgain)
			} else {
				next.Reset(jitter.Spread(askEvery))
			}
			if asks <= 2 {
				l.write(l.s.announcement(l.at, false))
				told = time.Now()
			}
		case <-l.answer:
			wait := max(jitter.SpreadBy(answerAfter/2, 1), answerGap-time.Since(told))
			if jitter.Sleep(ctx, wait) {
				l.write(l.s.announcement(l.at, false))
				told = time.Now()
			}
		}
	}
}

// write sends a packet. If that fails, the next interval sends one again.
func (l *link) write(p []byte, err error) {
	if err != nil || p == nil {
		return
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(sendTimeout)) // fails only if the socket is closed
	if _, err := l.conn.WriteTo(p, nil, group); err != nil {
		l.s.log.Debug("a packet of multicast DNS was not sent", "interface", l.at.Name, "err", err)
		return
	}
	l.s.m.packets.WithLabelValues("sent").Inc()
}
