package seeds

import (
	"context"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// Dialer is the part of a host that the bootstrapper uses. kad-dht learns of every connected
// peer that speaks its protocol, so a connection is enough.
type Dialer interface {
	// Connect returns when info's peer is connected. ctx has a deadline.
	Connect(ctx context.Context, info peer.AddrInfo) error
	Connected(p peer.ID) bool
	// OnLost calls f, which must not block, after each loss of a connection, until stop.
	OnLost(f func()) (stop func())
}

// HostDialer returns the Dialer of a host.
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
