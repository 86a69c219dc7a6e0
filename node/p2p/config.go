package p2p

import (
	"errors"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/lazyregexp"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config is the host's configuration. A change takes effect when the node starts again.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Profile  Profile  `koanf:"-"` // node.profile
	Listen   []string `koanf:"addrs"`
	Port     int      `koanf:"port"` // of the addresses in Listen, when nobody named these
	Relays   []string `koanf:"relays"`
	Announce []string `koanf:"announce"`
	Allow    []string `koanf:"allow" hot:"true"` // files, which package gateway/policy/access reads
	Deny     []string `koanf:"deny" hot:"true"`

	ConnsLow      int          `koanf:"conns_low"`
	ConnsHigh     int          `koanf:"conns_high"`
	MaxConns      int          `koanf:"max_conns"`
	MaxConnsPerIP int          `koanf:"max_conns_per_ip"`
	NewConnsPerIP float64      `koanf:"new_conns_per_ip"`
	MaxSessions   int          `koanf:"max_sessions"`
	MaxMemory     limits.Bytes `koanf:"max_memory"`

	MDNS         bool `koanf:"mdns"` // for package protocols/lan
	PortMap      bool `koanf:"port_map"`
	HolePunch    bool `koanf:"hole_punch"`
	RelayService bool `koanf:"relay_service"`
	Browsers     bool `koanf:"browsers"`
}

// Validate returns nil, or a status.BadRequest that names the first wrong key and its
// bounds.
func (c Config) Validate() error {
	bad := func(key, format string, args ...any) error {
		return status.Errorf(status.BadRequest, "listen.%s %s", key, fmt.Sprintf(format, args...))
	}
	if !slices.Contains(Profiles(), c.Profile) {
		return status.Errorf(status.BadRequest, "node.profile is %q, must be one of %v", c.Profile, Profiles())
	}
	if c.Port < 0 || c.Port > maxPort {
		return bad("port", "is %d, must be 0 to %d", c.Port, maxPort)
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
	if len(c.Announce) > maxAnnounce {
		return bad("announce", "has %d addresses, more than %d", len(c.Announce), maxAnnounce)
	}
	for _, s := range c.Announce {
		if _, err := parseAnnounce(s); err != nil {
			return bad("announce", "has %q: %v", s, err)
		}
	}
	for key, files := range map[string][]string{"allow": c.Allow, "deny": c.Deny} {
		if len(files) > maxAccessFiles || slices.Contains(files, "") {
			return bad(key, "has %d files, or one without a name; name at most %d", len(files), maxAccessFiles)
		}
	}
	switch {
	case c.ConnsLow < 1:
		return bad("conns_low", "is %d, below 1", c.ConnsLow)
	case c.ConnsHigh < c.ConnsLow:
		return bad("conns_high", "is %d, below conns_low (%d)", c.ConnsHigh, c.ConnsLow)
	case c.MaxConns < c.ConnsHigh:
		return bad("max_conns", "is %d, below conns_high (%d)", c.MaxConns, c.ConnsHigh)
	case c.MaxConnsPerIP < 1:
		return bad("max_conns_per_ip", "is %d, below 1", c.MaxConnsPerIP)
	case !(c.NewConnsPerIP > 0):
		return bad("new_conns_per_ip", "is %g, it must be above 0", c.NewConnsPerIP)
	case c.MaxSessions < 1:
		return bad("max_sessions", "is %d, below 1", c.MaxSessions)
	case c.MaxMemory != 0 && c.MaxMemory < minMemory:
		return bad("max_memory", "is %d, below %d (or 0 for a share of the memory it may use)", c.MaxMemory, minMemory)
	}
	return nil
}

const (
	maxPort        = 1<<16 - 1
	maxRelays      = 16        // addresses
	maxAnnounce    = 8         // addresses; all of them are in every record
	maxAccessFiles = 16        // of listen.allow, and of listen.deny
	minMemory      = 256 << 20 // bytes
)

// relays parses Relays and groups the addresses by relay.
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

// parseAnnounce parses an address at which others dial this node: one of a transport of the host, or of a
// proxy before it.
func parseAnnounce(s string) (ma.Multiaddr, error) {
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		return nil, err
	}
	form := ""
	for i, c := range a {
		if i > 0 && (c.Code() == ma.P_TCP || c.Code() == ma.P_UDP) && c.Value() == "0" {
			return nil, errors.New("port 0 cannot be dialled")
		}
		form += "/" + c.Protocol().Name
	}
	if manet.IsIPUnspecified(a) || !announceForm().MatchString(form) {
		return nil, errors.New("use /ip4|ip6|dns|dns4|dns6/HOST/tcp/PORT or …/udp/PORT/quic-v1, without /p2p/ID")
	}
	return a, nil
}

// announceForm matches the protocols of an address that may be announced.
var announceForm = lazyregexp.New(`^/(ip4|ip6|dns|dns4|dns6)/(tcp|udp/quic-v1)$`)

// parseListen parses a listen address. It accepts only the two forms for which the host
// has a transport.
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

// isQUIC reports whether a parsed address is a QUIC address.
func isQUIC(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_QUIC_V1)
	return err == nil
}

// IsQUIC reports whether listen is a valid listen address for QUIC.
func IsQUIC(listen string) bool {
	a, err := parseListen(listen)
	return err == nil && isQUIC(a)
}
