package server

import (
	"net/netip"

	"allium/gateway/server/conns"
	"allium/internal/limits"
)

// bounds are the limits of requests and connections.
type bounds struct {
	requests   *limits.Gate     // public requests being decided
	api        *limits.Gate     // requests of the admin listener and the socket
	events     *eventStreams    // streams of events on the admin listener and the socket
	uploads    *limits.Gate     // public uploads, which do not count as requests
	clients    *clients         // of the public listener
	waiting    waiting          // public requests that wait for a token of clients
	transfers  *conns.Transfers // public answers being sent, without listings
	listings   *conns.Transfers // public listings being sent
	lingers    *limits.Gate     // HTTP/2 streams open after their upload was refused
	conns      [roles]conns.Limits
	halfClosed *conns.HalfClosed
}

// clients limits each client of the public listener, an IPv4 address or IPv6 /64: its requests
// in flight and its share of the rate (SPEC §2).
type (
	clients     = limits.FairRate[netip.Prefix]
	clientShare = limits.Share[netip.Prefix]
)

func newBounds(cfg Config, admin AdminConfig, p Params, r *limits.Registry, evicted func()) bounds {
	gate := func(name, path, policy string, n int64) *limits.Gate {
		return r.NewGate(limits.Spec{Name: name, Path: path, Policy: policy}, n, 0)
	}
	const busy = "reject: 429 busy"
	b := bounds{
		halfClosed: conns.NewHalfClosed(),
		requests:   gate("gateway.inflight", "public listener → handlers", busy, cfg.Inflight),
		clients: limits.NewFairRate[netip.Prefix](r,
			limits.Spec{
				Name: "gateway.rate", Path: "public listener → handlers",
				Policy: "wait in turn, then reject: 429 rate_limit, clients above an equal share first",
			},
			limits.Spec{
				Name: "gateway.inflight_per_ip", Path: "public listener → handlers", Policy: busy, Each: "client",
			},
			clientRate(cfg)),
		transfers: conns.NewTransfers(r, "gateway.transfers", cfg.Transfers, evicted),
		listings:  conns.NewTransfers(r, "gateway.listings", p.Listings, evicted),
		api:       gate("admin.inflight", "admin listener and socket → handlers", busy, admin.Inflight),
		uploads:   gate("gateway.uploads", "public listener → uploads", busy, cfg.Uploads),
		lingers: gate("gateway.lingering", "refused HTTP/2 uploads → open streams",
			"reset at once", p.LingeringStreams),
	}
	b.waiting = newWaiting(cfg, r)
	b.events = &eventStreams{
		gate:  gate("admin.events", "admin listener and socket → streams of events", busy, p.EventStreams),
		conns: map[*conns.Conn]struct{}{},
	}
	all := func(name, from, policy string, n int64) *limits.Gate {
		return gate(name, from+" → connections", policy, n)
	}
	const closed = "closed at once"
	perIP := func(name, from string) *limits.KeyedGate[netip.Prefix] {
		spec := limits.Spec{Name: name, Path: from + " → connections", Policy: closed, Each: "client"}
		return limits.NewKeyedGate[netip.Prefix](r, spec, cfg.ConnsPerIP)
	}
	b.conns[Public].All = all("gateway.conns", "public listener",
		"a client with more connections loses one, the longest idle first; else closed at once", cfg.Conns)
	b.conns[Admin].All = all("admin.conns", "admin listener", closed, admin.Conns)
	b.conns[Socket].All = all("admin.socket_conns", "Unix socket", closed, admin.Conns)
	b.conns[Public].PerClient = perIP("gateway.conns_per_ip", "public listener")
	if cfg.TLS.RedirectListen != "" {
		b.conns[Redirect].All = all("gateway.redirect_conns", "redirect listener", closed, cfg.Conns)
		b.conns[Redirect].PerClient = perIP("gateway.redirect_conns_per_ip", "redirect listener")
	}
	return b
}
