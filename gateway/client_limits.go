package gateway

import (
	"net/netip"

	"allium/protocols/admission"
)

// clients are what the public listener grants each client, an IPv4 address or
// IPv6 /64: places in flight, and its share of the rate (SPEC §2).
type (
	clients     = admission.Shares[netip.Prefix]
	clientShare = admission.Share[netip.Prefix]
)

func newClients(cfg Config, r *admission.Registry) *clients {
	return admission.NewShares[netip.Prefix](r,
		admission.Spec{Name: "gateway.rate", Path: "public listener → handlers", Policy: "reject: 429 rate_limit, who is beyond an equal share first"},
		admission.Spec{Name: "gateway.inflight_per_ip", Path: "public listener → handlers", Policy: "reject: 429 busy"},
		admission.SharesConfig{PerSecond: cfg.Rate, Burst: cfg.Burst, Each: cfg.InflightPerIP})
}
