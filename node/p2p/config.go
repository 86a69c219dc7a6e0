package p2p

import (
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Config is the host's configuration. All of it is cold: a change takes effect
// when the node starts again.
type Config struct {
	Profile Profile  `koanf:"-"` // node.profile
	Listen  []string `koanf:"addrs" doc:"Multiaddrs to listen on, /ip4|ip6/…/tcp/PORT or /ip4|ip6/…/udp/PORT/quic-v1; port 0 means any free one; an empty list means to listen nowhere."`
	Relays  []string `koanf:"relays" doc:"Multiaddrs with /p2p/ID of relays through which a node without a public address can be reached; at most 16."`

	ConnsLow         int           `koanf:"conns_low" doc:"Connections kept when idle ones are trimmed; at least 1."`
	ConnsHigh        int           `koanf:"conns_high" doc:"Connections above which idle ones are trimmed down to conns_low; at least conns_low."`
	ConnGrace        time.Duration `koanf:"conn_grace" doc:"Age below which a connection is not trimmed; at least 1 s."`
	MaxConns         int           `koanf:"max_conns" doc:"Connections at one time, dials included, after which new ones are refused; at least conns_high."`
	MaxConnsPerIP    int           `koanf:"max_conns_per_ip" doc:"Connections at one time with one IPv4 address or IPv6 /56, loopback exempt; at least 1."`
	NewConnsPerIP    float64       `koanf:"new_conns_per_ip" doc:"New inbound connections per second from one IPv4 address or IPv6 /56, loopback exempt, with a burst of twice max_conns_per_ip; more than 0."`
	MaxSessions      int           `koanf:"max_sessions" doc:"OAP session streams at one time in each direction; at least 1."`
	MaxMemory        limits.Bytes  `koanf:"max_memory" doc:"Bytes of buffers for what peers send: three quarters for what the transports may promise, a quarter for frames that are not complete; 0 means a quarter of the machine's memory, and at least 256 MiB."`
	DialTimeout      time.Duration `koanf:"dial_timeout" doc:"Time for one dial, handshake included; between 100 ms and 60 s."`
	MuxInitialWindow limits.Bytes  `koanf:"mux_initial_window" doc:"Bytes a new yamux stream may receive before it is read; between 256 KiB and mux_max_window."`
	MuxMaxWindow     limits.Bytes  `koanf:"mux_max_window" doc:"Bytes to which the window of a yamux stream may grow; at most 16 MiB."`

	PortMap   bool `koanf:"port_map" doc:"Whether to ask the router for a port mapping by UPnP or NAT-PMP."`
	HolePunch bool `koanf:"hole_punch" doc:"Whether to turn relayed connections into direct ones by hole punching."`
}

// Validate returns status.BadRequest with the key that is wrong and its bounds.
func (c Config) Validate() error {
	bad := func(key, format string, args ...any) error {
		return status.Errorf(status.BadRequest, "p2p: listen.%s %s", key, fmt.Sprintf(format, args...))
	}
	if !slices.Contains(Profiles(), c.Profile) {
		return status.Errorf(status.BadRequest, "p2p: unknown profile %q: use one of %v", c.Profile, Profiles())
	}
	for _, s := range c.Listen {
		a, err := parseListen(s)
		if err != nil {
			return bad("addrs", "has %q: %v", s, err)
		}
		if c.Profile == Testnet && !manet.IsIPLoopback(a) {
			return bad("addrs", "has %q: a testnet listens on loopback addresses alone", s)
		}
	}
	if len(c.Relays) > maxRelays {
		return bad("relays", "has %d addresses, more than %d", len(c.Relays), maxRelays)
	}
	if _, err := c.relays(); err != nil {
		return bad("relays", "cannot be read: %v", err)
	}
	switch {
	case c.ConnsLow < 1:
		return bad("conns_low", "is %d, below 1", c.ConnsLow)
	case c.ConnsHigh < c.ConnsLow:
		return bad("conns_high", "is %d, below conns_low (%d)", c.ConnsHigh, c.ConnsLow)
	case c.ConnGrace < time.Second:
		return bad("conn_grace", "is %s, below 1s", c.ConnGrace)
	case c.MaxConns < c.ConnsHigh:
		return bad("max_conns", "is %d, below conns_high (%d)", c.MaxConns, c.ConnsHigh)
	case c.MaxConnsPerIP < 1:
		return bad("max_conns_per_ip", "is %d, below 1", c.MaxConnsPerIP)
	case !(c.NewConnsPerIP > 0):
		return bad("new_conns_per_ip", "is %g, it must be above 0", c.NewConnsPerIP)
	case c.MaxSessions < 1:
		return bad("max_sessions", "is %d, below 1", c.MaxSessions)
	case c.MaxMemory != 0 && c.MaxMemory < minMemory:
		return bad("max_memory", "is %d, below %d (or 0 for a share of the machine's memory)", c.MaxMemory, minMemory)
	case c.DialTimeout < 100*time.Millisecond || c.DialTimeout > time.Minute:
		return bad("dial_timeout", "is %s, outside 100ms to 60s", c.DialTimeout)
	case c.MuxInitialWindow < 256<<10 || c.MuxInitialWindow > c.MuxMaxWindow:
		return bad("mux_initial_window", "is %d, outside 256 KiB to mux_max_window (%d)", c.MuxInitialWindow, c.MuxMaxWindow)
	case c.MuxMaxWindow > 16<<20:
		return bad("mux_max_window", "is %d, above 16 MiB", c.MuxMaxWindow)
	}
	return nil
}

const (
	maxRelays = 16
	minMemory = 256 << 20
)

// relays parses Relays, joining the addresses of one relay.
func (c Config) relays() ([]peer.AddrInfo, error) {
	addrs := make([]ma.Multiaddr, len(c.Relays))
	for i, s := range c.Relays {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			return nil, err
		}
		addrs[i] = a
	}
	return peer.AddrInfosFromP2pAddrs(addrs...)
}

// parseListen accepts exactly the two forms the host has transports for.
func parseListen(s string) (ma.Multiaddr, error) {
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		return nil, err
	}
	var codes []int
	for _, c := range a {
		codes = append(codes, c.Protocol().Code)
	}
	if len(codes) > 0 && (codes[0] == ma.P_IP4 || codes[0] == ma.P_IP6) {
		rest := codes[1:]
		if slices.Equal(rest, []int{ma.P_TCP}) || slices.Equal(rest, []int{ma.P_UDP, ma.P_QUIC_V1}) {
			return a, nil
		}
	}
	return nil, fmt.Errorf("use /ip4|ip6/ADDRESS/tcp/PORT or /ip4|ip6/ADDRESS/udp/PORT/quic-v1")
}

// isQUIC reports whether a parsed listen address is of the QUIC transport.
func isQUIC(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_QUIC_V1)
	return err == nil
}

// IsQUIC reports whether a listen address is well-formed and of QUIC.
func IsQUIC(listen string) bool {
	a, err := parseListen(listen)
	return err == nil && isQUIC(a)
}
