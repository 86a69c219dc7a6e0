package object

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"go.uber.org/goleak"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// loopback is a server and a client on two real libp2p hosts, connected over
// the loopback interface.
type loopback struct {
	from, to host.Host // the client's, the server's
	store    *memStore
	server   *Server
	client   *Client
}

func newLoopback(t testing.TB, transport string, cfg Config) *loopback {
	t.Helper()
	return newLoopbackWith(t, transport, cfg, func(*ServerDeps) {})
}

// newLoopbackWith is newLoopback of a server with other dependencies.
func newLoopbackWith(t testing.TB, transport string, cfg Config, change func(*ServerDeps)) *loopback {
	t.Helper()
	l := &loopback{from: newHost(t, transport), to: newHost(t, transport), store: newMemStore()}
	if err := l.from.Connect(t.Context(), peer.AddrInfo{ID: l.to.ID(), Addrs: l.to.Addrs()}); err != nil {
		t.Fatal(err)
	}
	deps := ServerDeps{Host: l.to, Store: l.store}
	change(&deps)
	var err error
	if l.server, err = NewServer(cfg, deps); err != nil {
		t.Fatal(err)
	}
	if l.client, err = NewClient(cfg, ClientDeps{Host: l.from}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- l.server.Run(ctx, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		_ = l.client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l
}

// newHost is a host as node/p2p builds it, with one transport.
func newHost(t testing.TB, transport string) host.Host {
	t.Helper()
	mux := *yamux.DefaultTransport
	mux.InitialStreamWindowSize = 1 << 20
	opts := []libp2p.Option{libp2p.DisableRelay(), libp2p.DisableMetrics()}
	if transport == "quic" {
		opts = append(opts, libp2p.ListenAddrStrings("/ip4/127.0.0.1/udp/0/quic-v1"),
			libp2p.Transport(quic.NewTransport))
	} else {
		opts = append(opts, libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.Transport(tcp.NewTCPTransport),
			libp2p.Security(noise.ID, noise.New), libp2p.Muxer(yamux.ID, &mux))
	}
	h, err := libp2p.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// TestLoopback moves objects over real connections: every size, a batch, have,
// and a cancelled transfer, after which neither side holds anything.
func TestLoopback(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer func() {
		var left error
		for range 100 { // each waits for half a second, which libp2p may need longer than
			if left = goleak.Find(before); left == nil {
				return
			}
		}
		t.Error(left)
	}()
	for _, transport := range []string{"tcp", "quic"} {
		t.Run(transport, func(t *testing.T) { testLoopback(t, transport) })
	}
}

func testLoopback(t *testing.T, transport string) {
	l := newLoopback(t, transport, DefaultConfig())
	var objs []b3.Root
	var all [][]byte
	for i, size := range []int{0, 1, b3.GroupSize, b3.GroupSize + 1, 100*b3.GroupSize + 3, 4096} {
		all = append(all, testData(size, uint64(i)))
		objs = append(objs, l.store.put(all[i]))
	}
	for _, proof := range []bool{false, true} {
		c := newCollect(t, objs...)
		if err := l.client.Get(t.Context(), l.to.ID(), GetRequest{Objs: objs, SizeProof: proof}, c); err != nil {
			t.Fatal(err)
		}
		for i, want := range all {
			if c.errs[i] != nil || !bytes.Equal(c.data[i], want) {
				t.Errorf("object %d: %v", i, c.errs[i])
			}
		}
	}
	present, err := l.client.Have(t.Context(), l.to.ID(), append(objs, b3.Root{1}))
	if err != nil || present[0] != b3.Complete || present[len(objs)] != b3.Absent {
		t.Errorf("%v, %v", present, err)
	}
	if n := l.client.open(); n != 1 {
		t.Errorf("%d streams for one request after the other", n)
	}

	ctx, cancel := context.WithCancel(t.Context())
	c := newCollect(t, objs[4])
	sink := &hooked{Sink: c, item: func() {
		if c.groups[0] == 2 {
			cancel()
		}
	}}
	if err := l.client.Get(ctx, l.to.ID(), GetRequest{Objs: objs[4:5]}, sink); status.Of(err) != status.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if n := l.client.open(); n != 0 {
		t.Errorf("%d streams are kept", n)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.server.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("the server still works for a client that went away")
	}
}

// TestLoopbackStall stops reading on a real stream, whose windows differ from
// those in memory: the server gives up, and with a second request on the same
// connection all is well.
func TestLoopbackStall(t *testing.T) {
	cfg := DefaultConfig()
	cfg.WriteTimeout = time.Second // the second request needs less, also on a machine with other work
	for _, transport := range []string{"tcp", "quic"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			l := newLoopback(t, transport, cfg)
			root := l.store.put(make([]byte, 1000*b3.GroupSize)) // more than any window
			st, err := l.from.NewStream(t.Context(), l.to.ID(), ProtocolID)
			if err != nil {
				t.Fatal(err)
			}
			a := &asker{t: t, st: st}
			a.want(1, getOf(root))
			<-l.store.closed // by the server, which gave up
			_ = st.Reset()
			small := l.store.put([]byte("small"))
			if err := l.client.Get(t.Context(), l.to.ID(), GetRequest{Objs: []b3.Root{small}},
				newCollect(t, small)); err != nil {
				t.Error(err)
			}
		})
	}
}
