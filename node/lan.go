package node

import (
	"context"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	homedir "allium/node/home"
	"allium/node/supervise"
	"allium/protocols/lan"
	"allium/protocols/ticket"
)

// startLAN starts to look for nodes of the local network, unless listen.mdns is off. A node that listens
// on loopback alone does not: it is not on that network.
func (n *Node) startLAN(ctx context.Context) error {
	psk, err := homedir.SwarmKey(homedir.Path(n.home, n.cfg.Node.SwarmKey))
	if err != nil {
		return err
	}
	deps := lan.Deps{Env: n.env(), Host: n.host}
	if psk != nil {
		deps.Network = ticket.NetworkOf(psk).String()
	}
	s, err := lan.New(deps)
	if err != nil {
		return err
	}
	service := supervise.Service{
		Name: "lan", Doc: "finds nodes of the local network", Run: s.Run,
		When: "listen.mdns, unless it listens on loopback alone, or node.amnesia",
	}
	if !n.cfg.Listen.MDNS || n.cfg.Node.Amnesia || onLoopback(n.cfg.Listen.Listen) {
		n.services.Declare(service)
		return nil
	}
	return n.services.Start(ctx, service)
}

// onLoopback reports whether there are addresses and all are loopback ones.
func onLoopback(addrs []string) bool {
	for _, s := range addrs {
		if a, err := ma.NewMultiaddr(s); err != nil || !manet.IsIPLoopback(a) {
			return false
		}
	}
	return len(addrs) > 0
}
