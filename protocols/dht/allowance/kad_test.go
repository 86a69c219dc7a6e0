package allowance

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

const kadID = "/allium/kad/1.0.0"

// newHost returns a libp2p host on loopback.
func newHost(t *testing.T, listen string) host.Host {
	t.Helper()
	h, err := libp2p.New(libp2p.ListenAddrStrings(listen), libp2p.DisableRelay(), libp2p.DisableMetrics(),
		libp2p.ForceReachabilityPublic(), libp2p.DisableIdentifyAddressDiscovery())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// newKad starts kad-dht on h, as protocols/dht does.
func newKad(t *testing.T, h host.Host, mode kaddht.ModeOpt) *kaddht.IpfsDHT {
	t.Helper()
	kad, err := kaddht.New(
		h,
		kaddht.ProtocolPrefix("/allium"),
		kaddht.Mode(mode),
		kaddht.DisableProviders(),
		kaddht.DisableValues(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kad.Close() })
	return kad
}

// askKad starts a guarded kad-dht and returns it with a connected host.
func askKad(t *testing.T, listen string, change func(*Config)) (g *tested, server peer.ID, asker host.Host) {
	t.Helper()
	h := newHost(t, listen)
	g = newTested(t, change)
	ctx, cancel := context.WithCancel(context.Background()) // outlives t.Context, which ends before the cleanup
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- g.Run(ctx, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		g.wantFree(t)
	})
	newKad(t, g.Host(h, kadID, maxMessage), kaddht.ModeServer)
	asker = newHost(t, listen)
	if err := asker.Connect(t.Context(), peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}); err != nil {
		t.Fatal(err)
	}
	return g, h.ID(), asker
}

func openKad(t *testing.T, h host.Host, p peer.ID) network.Stream {
	t.Helper()
	s, err := h.NewStream(t.Context(), p, kadID)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { _ = s.Reset() })
	return s
}

// findNode is a FIND_NODE for key, as it travels.
func findNode(key []byte) []byte {
	return frame(append([]byte{0x08, byte(pb.Message_FIND_NODE), 0x12, byte(len(key))}, key...))
}

func wantAnswer(t *testing.T, s network.Stream, names peer.ID) {
	t.Helper()
	if msg, err := readFrame(s); err != nil || !bytes.Contains(msg, []byte(names)) {
		t.Fatalf("the answer does not name %s: %x, %v", names, msg, err)
	}
}

func TestKadBehindTheGuard(t *testing.T) {
	for transport, listen := range map[string]string{
		"quic": "/ip4/127.0.0.1/udp/0/quic-v1", "tcp": "/ip4/127.0.0.1/tcp/0",
	} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			t.Run("FIND_NODE", func(t *testing.T) {
				g, server, asker := askKad(t, listen, nil)
				// kad-dht's own client, two calls on one stream.
				messenger, err := pb.NewProtocolMessenger(newKad(t, asker, kaddht.ModeClient).MessageSender())
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					got, err := messenger.GetClosestPeers(t.Context(), server, server)
					if err != nil || len(got) == 0 || got[0].ID != server {
						t.Fatalf("%v, %v", got, err)
					}
				}
				// By hand: two messages in one segment, then the end.
				s := openKad(t, asker, server)
				_, _ = s.Write(append(findNode([]byte(server)), findNode([]byte(server))...))
				_ = s.CloseWrite()
				wantAnswer(t, s, server)
				wantAnswer(t, s, server)
				if i := g.limit(t, "dht.inflight"); i.Peak == 0 || i.Rejected != 0 {
					t.Errorf("%+v", i)
				}
			})
			t.Run("over the rate", func(t *testing.T) {
				g, server, asker := askKad(t, listen, func(c *Config) { c.PeerRate = 1 })
				// The bucket has one token and gets one a second: of ten messages
				// at once, no machine is slow enough for all to pass.
				s := openKad(t, asker, server)
				_, _ = s.Write(bytes.Repeat(findNode([]byte(server)), 10))
				wantReset(t, s, network.StreamRateLimited)
				g.wantRejected(t, kindPeerRate, 1)
			})
			t.Run("in flight", func(t *testing.T) {
				g, server, asker := askKad(t, listen, func(c *Config) { c.Inflight = 1 })
				release, err := g.Admit(t.Context(), "other", "", 1)
				if err != nil {
					t.Fatal(err)
				}
				s := openKad(t, asker, server)
				_, _ = s.Write(findNode([]byte(server)))
				wantReset(t, s, network.StreamResourceLimitExceeded)
				release()
				s = openKad(t, asker, server)
				_, _ = s.Write(findNode([]byte(server)))
				wantAnswer(t, s, server)
			})
			t.Run("too long", func(t *testing.T) {
				_, server, asker := askKad(t, listen, nil)
				s := openKad(t, asker, server)
				_, _ = s.Write(frame(make([]byte, maxMessage+1))[:100])
				wantReset(t, s, network.StreamProtocolViolation)
			})
			t.Run("stalled", func(t *testing.T) {
				if testing.Short() {
					t.Skip("takes 5 s")
				}
				_, server, asker := askKad(t, listen, nil)
				s := openKad(t, asker, server)
				_, _ = s.Write(findNode([]byte(server))[:10])
				wantReset(t, s, network.StreamGarbageCollected)
			})
		})
	}
}

// TestKadStops: with a stream open, the guard's end is the stream's.
func TestKadStops(t *testing.T) {
	h, g := newHost(t, "/ip4/127.0.0.1/tcp/0"), newTested(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- g.Run(ctx, func() { close(ready) }) }()
	<-ready
	newKad(t, g.Host(h, kadID, maxMessage), kaddht.ModeServer)
	asker := newHost(t, "/ip4/127.0.0.1/tcp/0")
	if err := asker.Connect(t.Context(), peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}); err != nil {
		t.Fatal(err)
	}
	s := openKad(t, asker, h.ID())
	_, _ = s.Write(findNode([]byte(h.ID())))
	wantAnswer(t, s, h.ID())
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// The handler was reading on, or about to: then the stream ends in order.
	if _, err := readFrame(s); err == nil {
		t.Error("the stream lives on")
	} else if se := (*network.StreamError)(nil); errors.As(err, &se) && se.ErrorCode != network.StreamShutdown {
		t.Error(err)
	}
	wantReset(t, openKad(t, asker, h.ID()), network.StreamShutdown)
}
