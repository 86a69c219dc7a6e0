package p2p

import (
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// gaters admits what each of several gaters admits. The library takes one.
type gaters []connmgr.ConnectionGater

// gaters returns the gaters of the host: that of Deps first, so that a testnet's faults do not hear of
// peers that are denied.
func (b *Builder) gaters() (all gaters) {
	if b.deps.Gater != nil {
		all = append(all, b.deps.Gater)
	}
	if b.deps.Faults != nil {
		all = append(all, gater{b.deps.Faults})
	}
	return all
}

// InterceptPeerDial implements connmgr.ConnectionGater.
func (g gaters) InterceptPeerDial(id peer.ID) bool {
	for _, one := range g {
		if !one.InterceptPeerDial(id) {
			return false
		}
	}
	return true
}

// InterceptAddrDial implements connmgr.ConnectionGater.
func (g gaters) InterceptAddrDial(id peer.ID, at ma.Multiaddr) bool {
	for _, one := range g {
		if !one.InterceptAddrDial(id, at) {
			return false
		}
	}
	return true
}

// InterceptAccept implements connmgr.ConnectionGater.
func (g gaters) InterceptAccept(c network.ConnMultiaddrs) bool {
	for _, one := range g {
		if !one.InterceptAccept(c) {
			return false
		}
	}
	return true
}

// InterceptSecured implements connmgr.ConnectionGater.
func (g gaters) InterceptSecured(d network.Direction, id peer.ID, c network.ConnMultiaddrs) bool {
	for _, one := range g {
		if !one.InterceptSecured(d, id, c) {
			return false
		}
	}
	return true
}

// InterceptUpgraded implements connmgr.ConnectionGater.
func (g gaters) InterceptUpgraded(c network.Conn) (bool, control.DisconnectReason) {
	for _, one := range g {
		if ok, why := one.InterceptUpgraded(c); !ok {
			return false, why
		}
	}
	return true, 0
}
