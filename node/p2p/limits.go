package p2p

import (
	"fmt"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"github.com/libp2p/go-libp2p/x/rate"

	"allium/internal/ram"
)

// streamLimit bounds the streams of one protocol, in each direction, over the
// whole node and with one peer. Both directions together may reach their sum.
type streamLimit struct {
	id            protocol.ID
	total, peer   rcmgr.LimitVal
	memory, peerM rcmgr.LimitVal64 // bytes of receive windows
}

// streamLimits returns the limits of every protocol that the node speaks. The resource
// manager resets a stream over a limit before any handler sees it.
func (c Config) streamLimits() []streamLimit {
	const small = rcmgr.LimitVal64(256 << 10) // what yamux reserves for a new stream
	sessions := rcmgr.LimitVal(c.MaxSessions)
	window := rcmgr.LimitVal64(c.MuxMaxWindow)
	return []streamLimit{
		// One stream each way per connection (OAP1 §5), and a few connections.
		{"/oap/1/session", sessions, 4, 2 * small * rcmgr.LimitVal64(sessions), 8 * small},
		// A client pools 8 streams per peer; windows may grow to their maximum.
		{"/oap/1/object", 1024, 32, 64 * window, 8 * window},
		// One stream per RPC: 1,024 in flight in the process (SPEC §2).
		{"/allium/kad/1.0.0", 1024, 64, 2048 * small, 128 * small},
		{"/allium/sync/1.0.0", 256, 4, 512 * small, 8 * small}, // one comparison per stream
		{"/allium/prov/1.0.0", 1024, 64, 2048 * small, 128 * small},
		// One stream each way per connected peer, and one more while it is replaced. No
		// message is larger than small.
		{"/allium/gossip/1.0.0", rcmgr.LimitVal(c.MaxConns), 2, 2 * small * rcmgr.LimitVal64(c.MaxConns), 4 * small},
		{identify.ID, 256, 16, 512 * small, 32 * small},
		{identify.IDPush, 256, 16, 512 * small, 32 * small},
		{ping.ID, 64, 2, 128 * small, 4 * small},
	}
}

// newResourceManager makes the manager that admits connections and streams. A limit that
// is not set here is the library's default for half of Memory, which is what it would take of a
// machine, and for the files that the process may open.
func (c Config) newResourceManager(metrics bool, shares *connShares) (network.ResourceManager, error) {
	defaults := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&defaults)

	conns := rcmgr.LimitVal(c.MaxConns)
	sessions := rcmgr.LimitVal(c.MaxSessions)
	dialing := max(64, c.handshakes())
	incoming := c.handshakes() + c.relayed()
	streams := 2*sessions + 8*conns + 4096
	limits := rcmgr.PartialLimitConfig{
		System: rcmgr.ResourceLimits{
			Conns: conns, ConnsInbound: conns, ConnsOutbound: conns,
			Streams: streams, StreamsInbound: streams, StreamsOutbound: streams,
			Memory: rcmgr.LimitVal64(c.Memory() - c.InboundMemory()),
		},
		// The other side can draw a handshake out until it times out, so they have a limit
		// of their own.
		Transient: rcmgr.ResourceLimits{
			Conns: rcmgr.LimitVal(incoming + dialing), ConnsInbound: rcmgr.LimitVal(incoming),
			ConnsOutbound: rcmgr.LimitVal(dialing),
		},
		Protocol:     map[protocol.ID]rcmgr.ResourceLimits{},
		ProtocolPeer: map[protocol.ID]rcmgr.ResourceLimits{},
	}
	for _, l := range c.streamLimits() {
		limits.Protocol[l.id] = rcmgr.ResourceLimits{Streams: 2 * l.total,
			StreamsInbound: l.total, StreamsOutbound: l.total,
			Memory: l.memory}
		limits.ProtocolPeer[l.id] = rcmgr.ResourceLimits{Streams: 2 * l.peer,
			StreamsInbound: l.peer, StreamsOutbound: l.peer,
			Memory: l.peerM}
	}

	opts := []rcmgr.Option{
		// The library would count dials, and relayed connections for their relay's address, as strangers'
		// connections, and a LAN as one address. connShares counts by address instead.
		rcmgr.WithLimitPerSubnet([]rcmgr.ConnLimitPerSubnet{}, []rcmgr.ConnLimitPerSubnet{}),
		rcmgr.WithNetworkPrefixLimit([]rcmgr.NetworkPrefixLimit{}, []rcmgr.NetworkPrefixLimit{}),
		rcmgr.WithConnRateLimiters(&rate.Limiter{}),
	}
	if !metrics {
		opts = append(opts, rcmgr.WithMetricsDisabled())
	}
	files := defaults.AutoScale()
	scaled := defaults.Scale(c.Memory()/2, int(files.ToPartialLimitConfig().System.FD))
	rm, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits.Build(scaled)), opts...)
	if err != nil {
		return nil, fmt.Errorf("make the resource manager: %w", err)
	}
	return &sharedManager{rm, shares}, nil
}

// InboundMemory returns how many bytes the incomplete frames of peers may take: a quarter
// of MaxMemory. The transports' buffers have the rest.
func (c Config) InboundMemory() int64 { return c.Memory() / 4 }

// Memory returns MaxMemory or, if that is 0, the share for peers of the memory that the process may
// use. It is in bytes.
func (c Config) Memory() int64 {
	if c.MaxMemory > 0 {
		return int64(c.MaxMemory)
	}
	return ram.Mine().Peers
}
