package object

import (
	"context"
	"testing"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
)

// loopback is a server and a client on two real libp2p hosts, connected over
// TCP on the loopback interface.
type loopback struct {
	from, to host.Host // the client's, the server's
	store    *memStore
	server   *Server
	client   *Client
}

func newLoopback(t testing.TB, cfg Config) *loopback {
	t.Helper()
	l := &loopback{from: newHost(t), to: newHost(t), store: newMemStore()}
	if err := l.from.Connect(t.Context(), peer.AddrInfo{ID: l.to.ID(), Addrs: l.to.Addrs()}); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.server, err = NewServer(cfg, ServerDeps{Host: l.to, Store: l.store}); err != nil {
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

// newHost is a host as node/p2p builds it, TCP alone.
func newHost(t testing.TB) host.Host {
	t.Helper()
	mux := *yamux.DefaultTransport
	mux.InitialStreamWindowSize = 1 << 20
	h, err := libp2p.New(
		libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.Transport(tcp.NewTCPTransport),
		libp2p.Security(noise.ID, noise.New), libp2p.Muxer(yamux.ID, &mux), libp2p.DisableRelay(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}
