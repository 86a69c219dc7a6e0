package p2p

import (
	"fmt"

	"allium/protocols/status"
)

// Profile is the purpose of a node (SPEC §10). It decides the defaults of a [Config], and
// which means against NAT the host uses.
type Profile string

// The profiles of SPEC §10.
const (
	Desktop   Profile = "desktop"   // persistent, asks the router for a port
	Server    Profile = "server"    // persistent, with a public address
	Gateway   Profile = "gateway"   // a server whose HTTP listener is public
	Client    Profile = "client"    // dials others and is not dialled
	Pi        Profile = "pi"        // a desktop with small limits
	Micronode Profile = "micronode" // amnesia, small limits
	Seed      Profile = "seed"      // DHT server and relay with a public address
	Testnet   Profile = "testnet"   // loopback alone
)

// Canonical returns the profile that a name in a configuration means: macronode is the old name of
// desktop.
func (p Profile) Canonical() Profile {
	if p == "macronode" {
		return Desktop
	}
	return p
}

// Profiles lists the profiles in the order of SPEC §10.
func Profiles() []Profile {
	return []Profile{Desktop, Server, Gateway, Client, Pi, Micronode, Seed, Testnet}
}

// defaultPort is the port of the default addresses, except those of a testnet.
const defaultPort = 4901

// ListenAddrs returns the default addresses of a profile with a port. A client has none.
func ListenAddrs(p Profile, port int) []string {
	switch p {
	case Client:
		return nil
	case Testnet:
		return []string{fmt.Sprintf("/ip4/127.0.0.1/udp/%d/quic-v1", port), fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}
	}
	return []string{
		fmt.Sprintf("/ip4/0.0.0.0/udp/%d/quic-v1", port), fmt.Sprintf("/ip4/0.0.0.0/tcp/%d", port),
		fmt.Sprintf("/ip6/::/udp/%d/quic-v1", port), fmt.Sprintf("/ip6/::/tcp/%d", port),
	}
}

// DefaultConfig returns the configuration of a desktop.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		Profile:       Desktop,
		Listen:        ListenAddrs(Desktop, defaultPort),
		Port:          defaultPort,
		ConnsLow:      96,
		ConnsHigh:     160,
		MaxConns:      512,
		MaxConnsPerIP: 8,
		NewConnsPerIP: 0.2,
		MaxSessions:   2048,
		MDNS:          true,
		PortMap:       true,
		HolePunch:     true,
	}
}

// ProfileConfig returns the defaults of profile p, or status.BadRequest.
func ProfileConfig(p Profile) (Config, error) {
	c := DefaultConfig()
	c.Profile = p
	switch p {
	case Desktop:
	case Server, Gateway:
		c.MDNS, c.PortMap, c.RelayService = false, false, true
	case Client:
		c.PortMap, c.HolePunch = false, false
	case Pi, Micronode:
		c.MDNS = p == Pi
		c.ConnsLow, c.ConnsHigh, c.MaxConns = 32, 64, 192
		c.MaxSessions = 256
	case Seed:
		c.ConnsLow, c.ConnsHigh, c.MaxConns = 600, 900, 4096
		c.MaxSessions = 16384
		c.MDNS, c.PortMap, c.HolePunch, c.RelayService = false, false, false, true
	case Testnet:
		c.Port = 0
		c.MDNS, c.PortMap, c.HolePunch = false, false, false
	default:
		return Config{}, status.Errorf(status.BadRequest, "unknown profile %q: use one of %v", p, Profiles())
	}
	c.Listen = ListenAddrs(p, c.Port)
	return c, nil
}
