package p2p

import (
	"context"
	"net"

	"github.com/libp2p/go-libp2p/core/host"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/protocols/status"
)

// listenOn makes h listen on every address, or says which it could not get.
func listenOn(ctx context.Context, h host.Host, addrs []ma.Multiaddr) error {
	for _, a := range addrs {
		if err := probe(ctx, a); err != nil {
			return cannotListen(a, err)
		}
	}
	for _, a := range addrs {
		if err := h.Network().Listen(a); err != nil {
			return cannotListen(a, err)
		}
	}
	return nil
}

func cannotListen(a ma.Multiaddr, err error) error {
	return status.Errorf(status.TransportDown, "p2p: cannot listen on %s: %w; stop the program that uses the port, or name another with --listen or in listen.addrs (0 is any free one)", a, err)
}

// probe fails where another program listens on a TCP port. The library sets
// SO_REUSEPORT to dial from the port it listens on, so the kernel would let two
// nodes listen on one port and give either some of the connections. It is no
// lock: of two nodes that start at the same moment neither may see the other.
// All are probed before the host listens: the node's own addresses may overlap.
func probe(ctx context.Context, a ma.Multiaddr) error {
	if isQUIC(a) {
		return nil // its sockets are not shared with other programs
	}
	network, at, err := manet.DialArgs(a)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, at)
	if err != nil {
		return err
	}
	return l.Close()
}
