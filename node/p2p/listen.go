package p2p

import (
	"context"
	"net"

	"github.com/libp2p/go-libp2p/core/host"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/protocols/status"
)

// listenOn makes h listen on every address. An error is status.TransportDown and names
// the first address that failed.
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

// listenForBrowsers makes h listen for WebTransport and WebRTC-direct too, on the ports on which it listens for
// QUIC.
func listenForBrowsers(h host.Host) error {
	for _, a := range h.Network().ListenAddresses() {
		if len(a) != 3 || !isQUIC(a) {
			continue
		}
		for _, more := range []ma.Multiaddr{
			a.Encapsulate(ma.StringCast("/webtransport")), ma.Join(a[:2], ma.StringCast("/webrtc-direct")),
		} {
			if err := h.Network().Listen(more); err != nil {
				return cannotListen(more, err)
			}
		}
	}
	return nil
}

func cannotListen(a ma.Multiaddr, err error) error {
	return status.Errorf(status.TransportDown,
		"cannot listen on %s: %w; stop the program that uses the port, or name another with --listen or in "+
			"listen.addrs (0 is any free one)", a, err)
}

// probe returns an error if another program listens on a TCP address. The library sets
// SO_REUSEPORT, to dial from the port it listens on. So the kernel would let two nodes
// listen on one port and share the connections between them. probe is no lock: two nodes
// that start at the same moment may miss each other. listenOn probes all addresses before
// the host listens on one, because the node's own addresses may overlap.
func probe(ctx context.Context, a ma.Multiaddr) error {
	if isQUIC(a) {
		return nil // the library does not share UDP sockets with other programs
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
