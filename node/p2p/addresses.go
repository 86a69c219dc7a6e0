package p2p

import (
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/x/rate"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/status"
)

// sitePart is the ratio of the connections that a whole IPv6 /48 may have to those of one address.
// siteRate is that ratio for new connections a second.
const (
	sitePart = 8
	siteRate = 2.5
)

// addresses bounds the inbound connections of one address, see [ipgroup.Address]: how many there
// are, how fast new ones come, and how many QUIC handshakes begin before the peer has proved that
// it is at the address. Loopback has no bound: a testnet is many nodes behind one address. All
// endpoints without an IP address count as one.
type addresses struct {
	open, sites   *limits.KeyedGate[netip.Prefix]
	rate, proving connRates
}

func newAddresses(c Config, registry *limits.Registry) *addresses {
	spec := func(name, path string) limits.Spec {
		return limits.Spec{Name: name, Path: path, Policy: "refused", Each: "address"}
	}
	most := min(c.MaxConnsPerIP, c.MaxConns)
	one := rate.Limit{RPS: c.NewConnsPerIP, Burst: 2 * most}
	// A handshake from a forged address keeps its place for some 5 s. Half of the places are for
	// addresses that are proved.
	forged := rate.Limit{RPS: 0.1, Burst: max(1, most/2)}
	return &addresses{
		open: limits.NewKeyedGate[netip.Prefix](registry,
			spec("listen.conns_per_ip", "peers of one address → connections"), most),
		sites: limits.NewKeyedGate[netip.Prefix](registry,
			spec("listen.conns_per_48", "peers of one IPv6 /48 → connections"), sitePart*most),
		rate:    newConnRates(one, rate.Limit{RPS: siteRate * one.RPS, Burst: 5 * one.Burst}),
		proving: newConnRates(forged, rate.Limit{RPS: forged.RPS, Burst: sitePart * forged.Burst}),
	}
}

// enter counts an inbound connection from an endpoint. The caller calls leave once it has ended.
func (a *addresses) enter(endpoint ma.Multiaddr) (leave func(), err error) {
	ip, _ := ipgroup.IP(endpoint)
	if ip.IsLoopback() {
		return func() {}, nil
	}
	one, _ := ipgroup.Address(endpoint)
	if !a.rate.allow(one) {
		return nil, status.Errorf(status.RateLimit, "too many new connections from its address")
	}
	leaveOne, err := a.open.Enter(one)
	if err != nil || one.Bits() != 56 {
		return leaveOne, err
	}
	leaveSite, err := a.sites.Enter(netip.PrefixFrom(one.Addr(), 48).Masked())
	if err != nil {
		leaveOne()
		return nil, err
	}
	return func() { leaveOne(); leaveSite() }, nil
}

// verify reports whether a QUIC client has to prove that it is at an address, which costs a round
// trip, before its handshake begins.
func (a *addresses) verify(addr net.Addr) bool {
	at, err := manet.FromNetAddr(addr)
	if err != nil {
		return true
	}
	ip, ok := ipgroup.IP(at)
	one, _ := ipgroup.Address(at)
	return !ok || !ip.IsLoopback() && !a.proving.allow(one)
}

// connRates are token buckets: of the addresses and sites that the library tells apart by their
// length, and of private IPv6 addresses, which it would count by their /56.
type connRates struct{ public, private *rate.Limiter }

func newConnRates(one, site rate.Limit) connRates {
	limiter := func(ipv6 ...rate.SubnetLimit) *rate.Limiter {
		return &rate.Limiter{SubnetRateLimiter: rate.SubnetLimiter{
			IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: one}},
			IPv6SubnetLimits: ipv6, GracePeriod: time.Minute,
		}}
	}
	return connRates{
		public: limiter(rate.SubnetLimit{PrefixLength: 56, Limit: one},
			rate.SubnetLimit{PrefixLength: 48, Limit: site}),
		private: limiter(rate.SubnetLimit{PrefixLength: 128, Limit: one}),
	}
}

// allow takes a token of an address.
func (r connRates) allow(one netip.Prefix) bool {
	if one.Bits() == 128 {
		return r.private.Allow(one.Addr())
	}
	return r.public.Allow(one.Addr())
}
