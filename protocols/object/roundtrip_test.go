package object

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// pair is a server and a client on an in-memory network.
type pair struct {
	net    *testkit.Network
	store  *memStore
	server *Server
	client *Client
	stop   context.CancelFunc
}

const (
	serverID = peer.ID("server")
	clientID = peer.ID("client")
)

// newPair starts a server; it and the client are gone when the test ends.
func newPair(t testing.TB, o testkit.Options, cfg Config) *pair {
	t.Helper()
	return newPairWith(t, o, cfg, func(*ServerDeps, *ClientDeps) {})
}

// newPairAt is newPair with a server that sends, and a client that receives, so many bytes a second;
// 0 is no bound.
func newPairAt(t testing.TB, o testkit.Options, cfg Config, up, down int64) *pair {
	t.Helper()
	return newPairWith(t, o, cfg, func(s *ServerDeps, c *ClientDeps) {
		s.Upload, c.Download = bandwidthOf("node.upload_rate", up), bandwidthOf("node.download_rate", down)
	})
}

func bandwidthOf(name string, perSecond int64) *limits.Bandwidth {
	b := limits.NewBandwidth(nil, limits.Spec{Name: name})
	b.Set(perSecond, true)
	return b
}

// newPairWith is newPair with other dependencies.
func newPairWith(t testing.TB, o testkit.Options, cfg Config, change func(*ServerDeps, *ClientDeps)) *pair {
	t.Helper()
	p := &pair{net: testkit.NewNetwork(o), store: newMemStore()}
	deps := ServerDeps{Host: p.net.Host(serverID), Store: p.store}
	asks := ClientDeps{Host: p.net.Host(clientID)}
	change(&deps, &asks)
	var err error
	p.server, err = NewServer(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	p.client, err = NewClient(cfg, asks)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- p.server.Run(ctx, func() { close(ready) }) }()
	<-ready
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(func() {
		_ = p.client.Close()
		p.stop()
		p.net.Close()
		if n := p.store.open.Load(); n != 0 {
			t.Errorf("%d objects are still open", n)
		}
	})
	return p
}

func TestRoundTripSizes(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	for _, size := range []int{0, 1, 4096, b3.GroupSize - 1, b3.GroupSize, b3.GroupSize + 1, 2 * b3.GroupSize,
		7*b3.GroupSize + 5, 40*b3.GroupSize - 1} {
		for _, proof := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%v", size, proof), func(t *testing.T) {
				data := testData(size, 1)
				root := p.store.put(data)
				c := newCollect(t, root)
				if err := p.client.Get(t.Context(), serverID,
					GetRequest{Objs: []b3.Root{root}, SizeProof: proof}, c); err != nil {
					t.Fatal(err)
				}
				if c.ended != 1 || c.errs[0] != nil || c.sizes[0] != int64(size) || !c.proved[0] ||
					!bytes.Equal(c.data[0], data) {
					t.Errorf("ended %d, %v, size %d, proved %v, %d bytes", c.ended, c.errs[0], c.sizes[0],
						c.proved[0], len(c.data[0]))
				}
				groups := int(b3.Groups(int64(size)))
				if proof {
					groups++
				}
				if c.groups[0] != groups {
					t.Errorf("%d groups, want %d", c.groups[0], groups)
				}
			})
		}
	}
}

func TestBatchWithMissing(t *testing.T) {
	p := newPair(t, testkit.Options{}, DefaultConfig())
	var objs []b3.Root
	for i := range MaxGet {
		data := testData(100+i, uint64(i))
		if i%50 == 7 {
			objs = append(objs, b3.Sum(data)) // not there
			continue
		}
		objs = append(objs, p.store.put(data))
	}
	c := newCollect(t, objs...)
	if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: objs}, c); err != nil {
		t.Fatal(err)
	}
	for i := range objs {
		if missing := i%50 == 7; missing != (status.Of(c.errs[i]) == status.NotFound) ||
			!missing && !bytes.Equal(c.data[i], testData(100+i, uint64(i))) {
			t.Errorf("object %d: %v, %d bytes", i, c.errs[i], len(c.data[i]))
		}
	}
	if c.ended != MaxGet || c.begun != MaxGet-5 {
		t.Errorf("%d began, %d ended", c.begun, c.ended)
	}
}
