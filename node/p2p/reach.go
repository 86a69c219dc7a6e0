package p2p

import (
	"strings"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/protocol"
	"go.uber.org/fx"

	"allium/node/p2p/reach"
)

// newReach returns what decides at which addresses the host is announced.
func newReach(cfg Config, deps Deps) (*reach.Service, error) {
	relays, err := cfg.relays()
	if err != nil {
		return nil, err // unreachable: Validate has parsed them
	}
	public := cfg.Profile == Seed
	c := reach.Config{
		Relays: relays, Relayed: !public && cfg.Profile != Testnet,
		Serve: cfg.RelayService && cfg.Profile != Testnet, Public: public,
		All: cfg.Profile == Testnet || deps.PSK != nil,
	}
	for _, s := range cfg.Announce {
		a, err := parseAnnounce(s)
		if err != nil {
			return nil, err // unreachable: Validate has parsed them
		}
		c.Announce = append(c.Announce, a)
	}
	for _, l := range cfg.streamLimits() {
		if ours(l.id) {
			c.Protocols = append(c.Protocols, l.id)
		}
	}
	return reach.New(c, reach.Deps{Env: deps.Env})
}

// ours reports whether a protocol is one of this program.
func ours(id protocol.ID) bool {
	return strings.HasPrefix(string(id), "/oap/") || strings.HasPrefix(string(id), "/allium/")
}

// Reach returns the service that decides at which addresses the host is announced, and keeps relays. The
// caller of Build runs it while the host is open.
func (b *Builder) Reach() *reach.Service { return b.reach }

// reachability returns the options with which a node of the profile is reached behind a
// NAT and helps other nodes to be reached.
func (b *Builder) reachability() []libp2p.Option {
	c := b.cfg
	udp, ipv6 := b.reach.Paths()
	opts := []libp2p.Option{
		libp2p.AddrsFactory(b.reach.Announced), libp2p.UDPBlackHoleSuccessCounter(udp),
		libp2p.IPv6BlackHoleSuccessCounter(ipv6),
	}
	if c.Profile != Testnet {
		opts = append(opts, libp2p.WithFxOption(fx.Decorate(b.reach.NewObserved)))
	}
	switch c.Profile {
	case Testnet:
		// There is no NAT on loopback, and a testnet must not ask nodes outside.
		return append(opts, libp2p.DisableRelay(), libp2p.DisableIdentifyAddressDiscovery(),
			libp2p.ForceReachabilityPublic())
	case Seed:
		return append(opts, libp2p.EnableRelay(), libp2p.ForceReachabilityPublic(), libp2p.EnableNATService(),
			libp2p.EnableAutoNATv2())
	}
	opts = append(opts, libp2p.EnableRelay(), libp2p.EnableAutoNATv2())
	if c.PortMap {
		opts = append(opts, libp2p.NATManager(b.reach.NATManager))
	}
	if c.HolePunch {
		opts = append(opts, libp2p.EnableHolePunching(b.reach.HolePunching()...))
	}
	return opts
}
