package server

import (
	"net/netip"

	"allium/internal/limits"
)

// bounds are what requests and connections take places of.
type bounds struct {
	requests  *limits.Gate // public requests being decided
	api       *limits.Gate // requests of the admin listener and the socket
	uploads   *limits.Gate // public, in place of requests
	clients   *clients     // public
	transfers *transfers   // public, but for listings
	listings  *transfers   // public
	lingers   *limits.Gate
	conns     [roles]connLimits
}

// connLimits bounds the connections of a listener, and of each client where those
// are strangers.
type connLimits struct {
	all   *limits.Gate
	perIP *limits.KeyedGate[netip.Prefix] // nil: not counted
}

// clients are what the public listener grants each client, an IPv4 address or
// IPv6 /64: places in flight, and its share of the rate (SPEC §2).
type (
	clients     = limits.Shares[netip.Prefix]
	clientShare = limits.Share[netip.Prefix]
)

func newBounds(cfg Config, admin AdminConfig, p Params, r *limits.Registry, evicted func()) bounds {
	gate := func(name, path, policy string, n int64) *limits.Gate {
		return r.NewGate(limits.Spec{Name: name, Path: path, Policy: policy}, n, 0)
	}
	const busy = "reject: 429 busy"
	b := bounds{
		requests: gate("gateway.inflight", "public listener → handlers", busy, cfg.Inflight),
		clients: limits.NewShares[netip.Prefix](r,
			limits.Spec{Name: "gateway.rate", Path: "public listener → handlers", Policy: "reject: 429 rate_limit, who is beyond an equal share first"},
			limits.Spec{Name: "gateway.inflight_per_ip", Path: "public listener → handlers", Policy: busy},
			limits.SharesConfig{PerSecond: cfg.Rate, Burst: cfg.Burst, Each: cfg.InflightPerIP}),
		transfers: newTransfers(r, "gateway.transfers", cfg.Transfers, evicted),
		listings:  newTransfers(r, "gateway.listings", p.Listings, evicted),
		api:       gate("admin.inflight", "admin listener and socket → handlers", busy, admin.Inflight),
		uploads:   gate("gateway.uploads", "public listener → uploads", busy, cfg.Uploads),
		lingers:   gate("gateway.lingering", "HTTP/2 uploads that are refused → streams still open", "reset at once", p.LeftStreams),
	}
	conns := func(name, from, policy string, n int64) *limits.Gate {
		return gate(name, from+" → connections", policy, n)
	}
	const closed = "closed at once"
	perIP := func(name, from string) *limits.KeyedGate[netip.Prefix] {
		return limits.NewKeyedGate[netip.Prefix](r, limits.Spec{Name: name, Path: from + " → connections", Policy: closed}, cfg.ConnsPerIP)
	}
	b.conns[Public].all = conns("gateway.conns", "public listener", "who has most and waits longest makes room; else closed at once", cfg.Conns)
	b.conns[Admin].all = conns("admin.conns", "admin listener", closed, admin.Conns)
	b.conns[Socket].all = conns("admin.socket_conns", "Unix socket", closed, admin.Conns)
	b.conns[Public].perIP = perIP("gateway.conns_per_ip", "public listener")
	if cfg.TLS.RedirectListen != "" {
		b.conns[Redirect].all = conns("gateway.redirect_conns", "redirect listener", closed, cfg.Conns)
		b.conns[Redirect].perIP = perIP("gateway.redirect_conns_per_ip", "redirect listener")
	}
	return b
}
