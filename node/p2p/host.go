package p2p

import (
	"context"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p"
	coreconnmgr "github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/pnet"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	webrtc "github.com/libp2p/go-libp2p/p2p/transport/webrtc"
	webtransport "github.com/libp2p/go-libp2p/p2p/transport/webtransport"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/env"
	"allium/node/p2p/reach"
	"allium/protocols/status"
)

// Deps holds the dependencies of the host.
type Deps struct {
	env.Env

	Key     crypto.PrivKey              // the node's identity, Ed25519
	PSK     pnet.PSK                    // 32 bytes for a private network; nil for the public one
	Version string                      // of the program; identify says allium/<version>
	Gater   coreconnmgr.ConnectionGater // asked at dials, accepts and handshakes; nil admits all
	// for one host of a testnet; nil: no faults. The caller ends them after the host
	Faults Faults
}

// Builder builds hosts of one configuration.
type Builder struct {
	cfg    Config
	deps   Deps
	listen []ma.Multiaddr
	unused []ma.Multiaddr // QUIC addresses of a private network
	reach  *reach.Service
	shares *connShares

	quic libp2p.Option // the QUIC transport; tests set one that uses a simulated network
}

// New checks the configuration and starts nothing. A wrong configuration is
// status.BadRequest.
func New(cfg Config, deps Deps) (*Builder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Key == nil || deps.Key.Type() != crypto.Ed25519 {
		return nil, status.Errorf(status.BadRequest, "the node needs an Ed25519 key")
	}
	if deps.PSK != nil && len(deps.PSK) != 32 {
		return nil, status.Errorf(status.BadRequest, "the pre-shared key has %d bytes, it must have 32", len(deps.PSK))
	}
	if deps.Faults != nil && cfg.Profile != Testnet {
		return nil, status.Errorf(status.BadRequest, "faults are for the profile %s alone, this is %s", Testnet,
			cfg.Profile)
	}
	deps.Env.SetDefaults()
	b := &Builder{cfg: cfg, deps: deps, quic: libp2p.Transport(quic.NewTransport)}
	var err error
	if b.reach, err = newReach(cfg, deps); err != nil {
		return nil, err
	}
	b.shares = newConnShares(cfg, deps.Limits, b.reach.Reserved)
	if b.shares.failures, err = newHandshakeFailures(deps); err != nil {
		return nil, err
	}
	if cfg.Browsers && deps.PSK != nil {
		return nil, status.Errorf(status.BadRequest,
			"listen.browsers needs UDP, which cannot be closed to nodes without the key of a private network: set it "+
				"to false")
	}
	for _, s := range cfg.Listen {
		a, err := parseListen(s)
		if err != nil {
			return nil, err
		}
		// QUIC has no room for a pre-shared key.
		if deps.PSK != nil && isQUIC(a) {
			b.unused = append(b.unused, a)
			continue
		}
		b.listen = append(b.listen, a)
	}
	if len(cfg.Listen) > 0 && len(b.listen) == 0 {
		return nil, status.Errorf(status.BadRequest,
			"listen.addrs has QUIC addresses alone, and a private network needs TCP: add /ip4/0.0.0.0/tcp/4901")
	}
	return b, nil
}

// Transports returns the names of the transports on which a host listens, as
// HELLO tells peers (OAP1 §13.15), sorted.
func Transports(h host.Host) []string {
	names := []string{}
	for _, a := range h.Network().ListenAddresses() {
		name := ""
		for _, c := range a {
			switch c.Code() {
			case ma.P_TCP, ma.P_QUIC_V1, ma.P_WS, ma.P_WSS, ma.P_WEBTRANSPORT, ma.P_WEBRTC_DIRECT:
				name = c.Protocol().Name // the last one counts: WebTransport runs over QUIC
			case ma.P_CIRCUIT:
				name = ""
			}
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Wait waits until every connection that was being closed is closed. The caller of Build
// calls it after it has closed the host.
func (b *Builder) Wait() { b.shares.closers.Wait() }

// Build starts a host and returns it once it listens on every configured address but
// those of Unused. If it cannot listen on one, it returns status.TransportDown with that
// address. The caller closes the host, then calls Wait. The first Build of the process
// decides where the library logs.
func (b *Builder) Build(ctx context.Context) (host.Host, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	bridgeLogs(ctx, b.deps.Log)
	if len(b.unused) > 0 {
		b.deps.Log.Info(
			"this node listens by TCP alone: QUIC cannot be closed to nodes without the key of a private network",
			"left_out", fmt.Sprint(b.unused))
	}
	rm, err := b.cfg.newResourceManager(b.deps.Metrics != nil, b.shares)
	if err != nil {
		return nil, err
	}
	cm, err := connmgr.NewConnManager(b.cfg.ConnsLow, b.cfg.ConnsHigh, connmgr.WithGracePeriod(b.cfg.ConnGrace))
	if err != nil {
		_ = rm.Close()
		return nil, fmt.Errorf("make the connection manager: %w", err)
	}
	h, err := libp2p.New(append(b.options(), libp2p.ResourceManager(rm), libp2p.ConnectionManager(cm))...)
	if err != nil {
		_ = cm.Close()
		_ = rm.Close()
		return nil, fmt.Errorf("start the libp2p host: %w", err)
	}
	b.reach.Attach(h)
	b.shares.keepReserve(h, max(1, int64(b.cfg.MaxConns/reserveOf)))
	// The host listens only now. Were it to listen in New, the library would not close a
	// host that fails, and would accept one address out of several.
	err = listenOn(ctx, h, b.listen)
	if err == nil && b.cfg.Browsers {
		err = listenForBrowsers(h)
	}
	if err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

// muxMessage is the longest yamux message in bytes: one frame with a group of 64 KiB, its
// header and its parents. With 64 KiB, yamux would split each such frame into a large
// message and one of some hundred bytes.
const muxMessage = 72 << 10

// options returns the host's options, except the two managers that Build has to close
// when it fails.
func (b *Builder) options() []libp2p.Option {
	c := b.cfg
	mux := *yamux.DefaultTransport
	mux.InitialStreamWindowSize = uint32(c.MuxInitialWindow)
	mux.MaxStreamWindowSize = uint32(c.MuxMaxWindow)
	mux.MaxMessageSize = muxMessage

	opts := []libp2p.Option{
		libp2p.Identity(b.deps.Key),
		libp2p.UserAgent("allium/" + b.deps.Version),
		libp2p.Muxer(yamux.ID, newBoundedMuxer(&mux, int64(c.MaxConns), b.deps.Limits)),
		libp2p.Transport(tcp.NewTCPTransport),
		libp2p.WithDialTimeout(c.DialTimeout),
		libp2p.SwarmOpts(swarm.WithDialRanker(rankDials)),
	}
	if b.deps.Faults != nil {
		opts = append(opts, faultyHost{b.deps.Faults}.options(b.deps.Metrics)...)
	} else {
		opts = append(opts,
			libp2p.Security(tls.ID, newTLS), // preferred: AES in hardware, and the muxer in the same round trip
			libp2p.Security(noise.ID, noise.New),
		)
	}
	if g := b.gaters(); len(g) > 0 {
		opts = append(opts, libp2p.ConnectionGater(g))
	}
	if b.deps.PSK != nil {
		opts = append(opts, libp2p.PrivateNetwork(b.deps.PSK))
	} else {
		warnUDPBuffers(b.deps.Log)
		opts = append(opts, b.quic)
		if c.Browsers {
			opts = append(opts, libp2p.Transport(webtransport.New), libp2p.Transport(webrtc.New))
		}
	}
	if b.deps.Metrics != nil {
		opts = append(opts, libp2p.PrometheusRegisterer(b.deps.Metrics))
	} else {
		opts = append(opts, libp2p.DisableMetrics())
	}
	return append(opts, b.reachability()...)
}
