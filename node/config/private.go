package config

import (
	"fmt"
	"strings"

	"allium/node/p2p"
)

// privateListen returns an error if the operator named QUIC addresses for a node of a private network.
// The host leaves QUIC addresses of the defaults out.
func (l *Loaded) privateListen() error {
	if l.Node.SwarmKey == "" || l.Sources["listen.addrs"] == FromDefault {
		return nil
	}
	var quic []string
	for _, a := range l.Listen.Listen {
		if p2p.IsQUIC(a) {
			quic = append(quic, a)
		}
	}
	if len(quic) == 0 {
		return nil
	}
	return fmt.Errorf("listen.addrs (from the %s) has %s, and node.swarm_key makes the network private: QUIC has no "+
		"place for its key, so such an address would be open to everybody; name TCP addresses, such as "+
		"/ip4/0.0.0.0/tcp/4901",
		sourceName[l.Sources["listen.addrs"]], strings.Join(quic, ", "))
}
