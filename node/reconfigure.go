package node

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node/config"
	"allium/node/reload"
	"allium/node/supervise"
	"allium/protocols/object"
)

// newReloads returns the service that changes the configuration of a node.
func newReloads(n *Node, deps Deps) *reload.Service {
	running := config.Unsourced(n.cfg)
	if deps.Loaded != nil {
		running = *deps.Loaded
		running.Config = n.cfg
	}
	d := reload.Deps{
		Env: n.env(), Read: deps.Configuration, Gates: n.board.Needed, Events: n.events.Reload,
		Apply: func(c config.Config) { apply(n, c) },
	}
	if !deps.Embedded {
		d.Checks = func(c config.Config) []reload.File { return reloadChecks(n.home, c) }
	}
	return reload.New(running, d)
}

// startReloads is the last stage: a reload needs all that the others have made.
func startReloads(ctx context.Context, n *Node) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "reloads", Owner: "node/reload", Doc: "reads the configuration again and guards the latest reload",
		Run: n.reloads.Run,
	})
}

// apply passes the hot keys of a configuration to the services. It does not wait. One call runs at a time, after every
// stage has started.
func apply(n *Node, c config.Config) {
	n.rates.set(c.Node)
	n.gateway.Reconfigure(c.Gateway)
	n.packs.Reconfigure(c.Edge.Pack)
	n.fills.Reconfigure(c.Edge.Fill)
	n.denylist.Reconfigure(denylistConfig(n.home, c.Gateway))
	n.access.Reconfigure(accessConfig(n.home, c.Listen))
	if n.audit != nil {
		n.audit.Reconfigure(c.Audit)
	}
	n.sessions.Reconfigure(c.Session)
	n.server.Reconfigure(c.Object)
	n.objects.Reconfigure(c.Object)
	n.dht.Reconfigure(c.DHT)
	n.resolver.Reconfigure(c.Resolver)
	n.store.Reconfigure(c.Store)
	n.repairs.SetRate(c.Store.RepairRate)
	if n.logLevel != nil {
		n.logLevel.Set(c.Log.SlogLevel())
	}
}

// Reload reads the node's configuration and files again. SIGHUP and the route /admin/reload call it. It waits until
// the node has started.
func (n *Node) Reload(ctx context.Context, r api.ReloadRequest) (api.Reloaded, error) {
	return n.reloads.Reload(ctx, r)
}

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
