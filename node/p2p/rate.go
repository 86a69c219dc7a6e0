package p2p

import (
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/x/rate"
)

// connRate limits how fast one address may open connections. Loopback has no
// limit: a testnet is many nodes behind one address.
func (c Config) connRate() *rate.Limiter {
	perIP := rate.Limit{RPS: c.NewConnsPerIP, Burst: 2 * c.MaxConnsPerIP}
	return &rate.Limiter{
		NetworkPrefixLimits: []rate.PrefixLimit{
			{Prefix: netip.MustParsePrefix("127.0.0.0/8")},
			{Prefix: netip.MustParsePrefix("::1/128")},
		},
		SubnetRateLimiter: rate.SubnetLimiter{
			IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: perIP}},
			IPv6SubnetLimits: []rate.SubnetLimit{
				{PrefixLength: 56, Limit: perIP},
				{PrefixLength: 48, Limit: rate.Limit{RPS: 2.5 * perIP.RPS, Burst: 5 * perIP.Burst}},
			},
			GracePeriod: time.Minute,
		},
	}
}
