package server

import (
	"allium/gateway/certs"
	"allium/internal/limits"
)

// live is what a request takes from the configuration once, as Reconfigure may replace it meanwhile.
type live struct {
	proxies proxies
	prefix  string   // gateway.prefix
	origins []string // gateway.cors_origins
}

// newLive reads a valid configuration.
func newLive(cfg Config) *live {
	l := &live{origins: cfg.CORSOrigins}
	l.proxies, _ = parseProxies(cfg.TrustedProxies)
	l.prefix, _ = parsePrefix(cfg.Prefix)
	return l
}

// Reconfigure applies the hot fields of a valid configuration at once. Requests that have begun keep what they were
// admitted with, and connections and transfers beyond a bound that shrank stay until they end.
func (s *Server) Reconfigure(cfg Config) {
	s.live.Store(newLive(cfg))
	s.deps.Bodies.SetMinRate(cfg.MinRate)
	if f, ok := s.certs.(interface{ Reconfigure(certs.Config) }); ok {
		f.Reconfigure(cfg.TLS)
	}
	b := &s.bounds
	b.requests.Resize(cfg.Inflight)
	b.uploads.Resize(cfg.Uploads)
	b.transfers.gate.Resize(cfg.Transfers)
	b.clients.Set(clientRate(cfg))
	for _, role := range []Role{Public, Redirect} {
		if at := b.conns[role]; at.all != nil {
			at.all.Resize(cfg.Conns)
			at.perIP.Resize(cfg.ConnsPerIP)
		}
	}
}

// clientRate returns the rate of requests, and the bounds of each client.
func clientRate(cfg Config) limits.FairRateConfig {
	return limits.FairRateConfig{PerSecond: cfg.Rate, Burst: cfg.Burst, Each: cfg.InflightPerIP, Wait: cfg.RateWait}
}
