package node

import (
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/limits"
	"allium/node/config"
	"allium/protocols/object"
)

// rates bound the content that the node sends and receives, of peers and of the gateway together.
type rates struct {
	upload, download *limits.Bandwidth
}

func newRates(r *limits.Registry, c config.Node) rates {
	b := rates{
		upload: limits.NewBandwidth(r, limits.Spec{
			Name:   "node.upload_rate",
			Path:   "content → peers and clients of the gateway (bytes per second; 0: no bound)",
			Policy: "wait in turn; a peer gets rate_limit if its turn is more than 4 s away",
		}),
		download: limits.NewBandwidth(r, limits.Spec{
			Name: "node.download_rate", Path: "peers and uploads → content (bytes per second; 0: no bound)",
			Policy: "wait in turn",
		}),
	}
	b.set(c)
	return b
}

// set applies the rates of a configuration.
func (b rates) set(c config.Node) {
	b.upload.Set(int64(c.UploadRate), c.LimitLAN)
	b.download.Set(int64(c.DownloadRate), c.LimitLAN)
}

// isNear reports whether a peer is in the local network: by its connections, or before there is one by
// the addresses that are known of it.
func (n *Node) isNear(id peer.ID) bool {
	conns := n.host.Network().ConnsToPeer(id)
	for _, c := range conns {
		if object.IsNear(c) {
			return true
		}
	}
	if len(conns) > 0 {
		return false
	}
	for _, a := range n.host.Peerstore().Addrs(id) {
		if manet.IsPrivateAddr(a) && !hasCircuit(a) {
			return true
		}
	}
	return false
}

func hasCircuit(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_CIRCUIT)
	return err == nil
}
