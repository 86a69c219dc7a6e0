package gateway

import (
	"net/netip"

	"allium/internal/limits"
)

// clients are what the public listener grants each client, an IPv4 address or
// IPv6 /64: places in flight, and its share of the rate (SPEC §2).
type (
	clients     = limits.Shares[netip.Prefix]
	clientShare = limits.Share[netip.Prefix]
)

func newClients(cfg Config, r *limits.Registry) *clients {
	return limits.NewShares[netip.Prefix](r,
		limits.Spec{Name: "gateway.rate", Path: "public listener → handlers", Policy: "reject: 429 rate_limit, who is beyond an equal share first"},
		limits.Spec{Name: "gateway.inflight_per_ip", Path: "public listener → handlers", Policy: "reject: 429 busy"},
		limits.SharesConfig{PerSecond: cfg.Rate, Burst: cfg.Burst, Each: cfg.InflightPerIP})
}
