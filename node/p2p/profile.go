package p2p

import (
	"allium/protocols/status"
)

// Profile is the purpose of a node (SPEC §10). It decides the defaults of a [Config], and
// which means against NAT the host uses.
type Profile string

// The profiles of SPEC §10.
const (
	Micronode Profile = "micronode" // amnesia, small limits
	Macronode Profile = "macronode" // persistent, at home or in a data centre
	Seed      Profile = "seed"      // DHT server and relay with a public address
	Testnet   Profile = "testnet"   // loopback alone
)

// Profiles lists the profiles in the order of SPEC §10.
func Profiles() []Profile { return []Profile{Micronode, Macronode, Seed, Testnet} }

// DefaultConfig returns the configuration of a macronode.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		Profile: Macronode,
		Listen: []string{
			"/ip4/0.0.0.0/udp/4901/quic-v1", "/ip4/0.0.0.0/tcp/4901",
			"/ip6/::/udp/4901/quic-v1", "/ip6/::/tcp/4901",
		},
		ConnsLow:      96,
		ConnsHigh:     160,
		MaxConns:      512,
		MaxConnsPerIP: 8,
		NewConnsPerIP: 0.2,
		MaxSessions:   2048,
		PortMap:       true,
		HolePunch:     true,
	}
}

// ProfileConfig returns the defaults of profile p, or status.BadRequest.
func ProfileConfig(p Profile) (Config, error) {
	c := DefaultConfig()
	c.Profile = p
	switch p {
	case Macronode:
	case Micronode:
		c.ConnsLow, c.ConnsHigh, c.MaxConns = 32, 64, 192
		c.MaxSessions = 256
	case Seed:
		c.ConnsLow, c.ConnsHigh, c.MaxConns = 600, 900, 4096
		c.MaxSessions = 16384
		c.PortMap, c.HolePunch = false, false
	case Testnet:
		c.Listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}
		c.PortMap, c.HolePunch = false, false
	default:
		return Config{}, status.Errorf(status.BadRequest, "unknown profile %q: use one of %v", p, Profiles())
	}
	return c, nil
}
