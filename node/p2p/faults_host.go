package p2p

import (
	"context"
	"errors"
	"net"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/quic-go/quic-go"
	"go.uber.org/fx"
)

// options are the parts of a host that Faults needs a place in; metrics is nil
// where the host has none.
func (f *Faults) options(metrics prometheus.Registerer) []libp2p.Option {
	return []libp2p.Option{
		libp2p.Security(tls.ID, f.newTLS),
		libp2p.Security(noise.ID, f.newNoise),
		libp2p.ConnectionGater(gater{f}),
		libp2p.QUICReuse(f.newQUICReuse(metrics)),
	}
}

// newQUICReuse is the library's constructor of what shares QUIC's sockets, with
// sockets of ours.
func (f *Faults) newQUICReuse(metrics prometheus.Registerer) any {
	return func(reset quic.StatelessResetKey, token quic.TokenGeneratorKey, rm network.ResourceManager, life fx.Lifecycle) (*quicreuse.ConnManager, error) {
		opts := []quicreuse.Option{
			quicreuse.OverrideListenUDP(f.listenUDP),
			quicreuse.ConnContext(func(ctx context.Context, c *quic.ClientInfo) (context.Context, error) {
				addr, err := quicreuse.ToQuicMultiaddr(c.RemoteAddr, quic.Version1)
				if err != nil {
					addr = nil // the resource manager decides about one without
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

func (f *Faults) newTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*faultySecurity, error) {
	t, err := newTLS(id, key, muxers)
	return &faultySecurity{t, f}, err
}

func (f *Faults) newNoise(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*faultySecurity, error) {
	t, err := noise.New(id, key, muxers)
	return &faultySecurity{t, f}, err
}

// faultySecurity puts a [faultyConn] below the security of a TCP connection,
// where the peer is known.
type faultySecurity struct {
	sec.SecureTransport
	f *Faults
}

// SecureOutbound implements [sec.SecureTransport]. To a peer that is cut off it
// lasts until ctx ends.
func (s *faultySecurity) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	below := s.f.conn(insecure, p)
	c, err := s.SecureTransport.SecureOutbound(ctx, below, p)
	if err != nil {
		_ = below.Close()
	}
	return c, err
}

// SecureInbound implements [sec.SecureTransport]. The handshake tells who it is;
// for one that is cut off it then lasts until the link is whole, or ctx ends.
func (s *faultySecurity) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	below := s.f.conn(insecure, p)
	c, err := s.SecureTransport.SecureInbound(ctx, below, p)
	if err != nil {
		_ = below.Close()
		return nil, err
	}
	id := c.RemotePeer()
	below.peer.Store(&id)
	stop := context.AfterFunc(ctx, func() { _ = below.Close() })
	defer stop()
	if err := below.pass(); err != nil {
		return nil, errors.Join(errCut, err, c.Close())
	}
	return c, nil
}

var errCut = errors.New("p2p: the peer is cut off by a fault of this testnet node")
