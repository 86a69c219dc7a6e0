package p2p

import (
	"context"
	"errors"
	"net"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/quic-go/quic-go"
	"go.uber.org/fx"
)

// Faults injects faults into the links of one host, for testnets (package node/fault).
type Faults interface {
	// Conn wraps a TCP connection to a peer, below TLS or Noise. An empty id means that
	// the peer is not known yet. The caller then calls prove with the peer's id after the
	// handshake. prove waits while that peer is cut off; its error says why it stopped
	// waiting.
	Conn(c net.Conn, id peer.ID) (faulty net.Conn, prove func(peer.ID) error)
	// ListenUDP opens a socket for QUIC.
	ListenUDP(network string, at *net.UDPAddr) (net.PacketConn, error)
	// Learn records that the peer is at an address. proved says that a connection has
	// proved it; otherwise an address book says so.
	Learn(id peer.ID, addr ma.Multiaddr, proved bool)
	// Cut reports whether a peer is cut off.
	Cut(id peer.ID) bool
}

// faultyHost builds the options of a host with faults.
type faultyHost struct{ f Faults }

// options returns the options that pass the host's connections and sockets through
// Faults. metrics may be nil.
func (f faultyHost) options(metrics prometheus.Registerer) []libp2p.Option {
	return []libp2p.Option{
		libp2p.Security(tls.ID, f.newTLS),
		libp2p.Security(noise.ID, f.newNoise),
		libp2p.QUICReuse(f.newQUICReuse(metrics)),
	}
}

// newQUICReuse returns a constructor of the library's QUIC connection manager. It does
// what the library's own constructor does, but opens the sockets with Faults.ListenUDP.
func (f faultyHost) newQUICReuse(metrics prometheus.Registerer) any {
	return func(reset quic.StatelessResetKey, token quic.TokenGeneratorKey, rm network.ResourceManager,
		life fx.Lifecycle) (*quicreuse.ConnManager, error) {
		opts := []quicreuse.Option{
			quicreuse.OverrideListenUDP(f.f.ListenUDP),
			quicreuse.ConnContext(func(ctx context.Context, c *quic.ClientInfo) (context.Context, error) {
				addr, err := quicreuse.ToQuicMultiaddr(c.RemoteAddr, quic.Version1)
				if err != nil {
					addr = nil // the resource manager decides about a connection without an address
				}
				scope, err := rm.OpenConnection(network.DirInbound, false, addr)
				if err != nil {
					return ctx, err
				}
				ctx = network.WithConnManagementScope(ctx, scope)
				context.AfterFunc(ctx, scope.Done)
				return ctx, nil
			}),
			quicreuse.VerifySourceAddress(rm.VerifySourceAddress),
		}
		if metrics != nil {
			opts = append(opts, quicreuse.EnableMetrics(metrics))
		}
		m, err := quicreuse.NewConnManager(reset, token, opts...)
		if err != nil {
			return nil, err
		}
		life.Append(fx.StopHook(m.Close))
		return m, nil
	}
}

func (f faultyHost) newTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*faultySecurity, error) {
	t, err := newTLS(id, key, muxers)
	return &faultySecurity{t, f.f}, err
}

func (f faultyHost) newNoise(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*faultySecurity,
	error) {
	t, err := noise.New(id, key, muxers)
	return &faultySecurity{t, f.f}, err
}

// faultySecurity is TLS or Noise over connections that Faults wraps.
type faultySecurity struct {
	sec.SecureTransport
	f Faults
}

// SecureOutbound implements [sec.SecureTransport]. If the peer is cut off, the handshake
// lasts until ctx ends.
func (s *faultySecurity) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	below, _ := s.f.Conn(insecure, p)
	c, err := s.SecureTransport.SecureOutbound(ctx, below, p)
	if err != nil {
		_ = below.Close()
	}
	return c, err
}

// SecureInbound implements [sec.SecureTransport]. The peer is known only after the
// handshake. If that peer is cut off, SecureInbound waits until it no longer is, or ctx
// ends.
func (s *faultySecurity) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	below, prove := s.f.Conn(insecure, p)
	c, err := s.SecureTransport.SecureInbound(ctx, below, p)
	if err != nil {
		_ = below.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = below.Close() })
	defer stop()
	if err := prove(c.RemotePeer()); err != nil {
		return nil, errors.Join(errCut, err, c.Close())
	}
	return c, nil
}

var errCut = errors.New("the peer is cut off by a fault of this testnet node")

// gater is the connection gater of a host with faults. It tells Faults the addresses of peers. It refuses
// no dial: a dial to a peer that is cut off ends by its timeout.
type gater struct{ f Faults }

// InterceptPeerDial implements connmgr.ConnectionGater.
func (gater) InterceptPeerDial(peer.ID) bool { return true }

// InterceptAddrDial implements connmgr.ConnectionGater.
func (g gater) InterceptAddrDial(id peer.ID, addr ma.Multiaddr) bool {
	g.f.Learn(id, addr, false)
	return true
}

// InterceptAccept implements connmgr.ConnectionGater.
func (gater) InterceptAccept(network.ConnMultiaddrs) bool { return true }

// InterceptSecured implements connmgr.ConnectionGater. It refuses a QUIC connection of a
// peer that is cut off and whose address was not known before. The peer does not learn of
// that: from now on its packets are dropped.
func (g gater) InterceptSecured(_ network.Direction, id peer.ID, at network.ConnMultiaddrs) bool {
	addr := at.RemoteMultiaddr()
	g.f.Learn(id, addr, true)
	return !isQUIC(addr) || !g.f.Cut(id)
}

// InterceptUpgraded implements connmgr.ConnectionGater.
func (gater) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }
