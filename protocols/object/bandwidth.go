package object

import (
	"context"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/limits"
)

// IsNear reports whether the peer of a connection is in the local network, or on this machine. What
// a relay carries is not near.
func IsNear(c network.ConnMultiaddrs) bool {
	addr := c.RemoteMultiaddr()
	if addr == nil {
		return false
	}
	if _, err := addr.ValueForProtocol(ma.P_CIRCUIT); err == nil {
		return false
	}
	ip, err := manet.ToIP(addr)
	if err != nil {
		return false
	}
	a, ok := netip.AddrFromSlice(ip)
	return ok && limits.Near(a)
}

// bandwidthKey returns the key of a peer in a [limits.Bandwidth].
func bandwidthKey(p peer.ID) string { return "peer " + string(p) }

// bandwidthWait is the longest wait of a client for a rate. The deadline of its request is shorter, or
// the peer gives up.
const bandwidthWait = time.Hour

// bandwidth returns what waits until n bytes may pass between the client and the peer of the stream.
func (c *clientStream) bandwidth(ctx context.Context, b *limits.Bandwidth) func(n int) error {
	near := IsNear(c.Conn())
	return func(n int) error { return b.Wait(ctx, bandwidthKey(c.peer), near, n, bandwidthWait) }
}
