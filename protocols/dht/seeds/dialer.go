package seeds

import (
	"context"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// Dialer is what the bootstrapper needs of a host. kad-dht hears of every peer
// that speaks its protocol by itself, so a connection is all it takes.
type Dialer interface {
	// Connect returns when there is a connection; ctx has a deadline.
	Connect(ctx context.Context, info peer.AddrInfo) error
	Connected(p peer.ID) bool
	// OnLost calls f, which does not block, after a connection was lost.
	OnLost(f func()) (stop func())
}

// HostDialer is the Dialer of a real host.
func HostDialer(h host.Host) Dialer { return hostDialer{h} }

type hostDialer struct{ h host.Host }

func (d hostDialer) Connect(ctx context.Context, info peer.AddrInfo) error {
	return d.h.Connect(ctx, info)
}

func (d hostDialer) Connected(p peer.ID) bool {
	return d.h.Network().Connectedness(p) == network.Connected
}

func (d hostDialer) OnLost(f func()) (stop func()) {
	n := &network.NotifyBundle{DisconnectedF: func(network.Network, network.Conn) { f() }}
	d.h.Network().Notify(n)
	return func() { d.h.Network().StopNotify(n) }
}
