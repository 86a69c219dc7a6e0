package object

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// counting opens streams and counts them.
type counting struct {
	*testkit.Host
	mu      sync.Mutex
	opened  int
	streams []network.Stream
}

func (c *counting) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	st, err := c.Host.NewStream(ctx, p, ids...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened++
	c.streams = append(c.streams, st)
	return st, err
}

// withCounting replaces the pair's client.
func withCounting(t testing.TB, p *pair, cfg Config) *counting {
	t.Helper()
	o := &counting{Host: p.net.Host(clientID)}
	_ = p.client.Close()
	var err error
	if p.client, err = NewClient(cfg, ClientDeps{Host: o}); err != nil {
		t.Fatal(err)
	}
	return o
}

func (p *pair) get(t testing.TB, to peer.ID, roots ...b3.Root) error {
	return p.client.Get(t.Context(), to, GetRequest{Objs: roots}, newCollect(t, roots...))
}

// TestReuse runs requests one after the other: one stream serves them, until it
// was idle for too long.
func TestReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		p := newPair(t, testkit.Options{}, cfg)
		o := withCounting(t, p, cfg)
		root := p.store.put(testData(3*b3.GroupSize, 1))
		for range 5 {
			if err := p.get(t, serverID, root); err != nil {
				t.Fatal(err)
			}
			time.Sleep(cfg.StreamIdle - time.Second)
		}
		if o.opened != 1 || p.client.open() != 1 {
			t.Errorf("%d streams opened, %d open", o.opened, p.client.open())
		}
		time.Sleep(2 * time.Second)
		if p.client.open() != 0 || p.client.idle() != 0 {
			t.Errorf("%d streams open after the idle time", p.client.open())
		}
		if err := p.get(t, serverID, root); err != nil || o.opened != 2 {
			t.Errorf("%v, %d opened", err, o.opened)
		}
	})
}

// TestDeadReuse lets an idle stream die unseen: the next request runs again on
// a new one, once.
func TestDeadReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.StreamIdle = time.Hour // longer than the server's patience
		p := newPair(t, testkit.Options{}, cfg)
		o := withCounting(t, p, cfg)
		root := p.store.put(testData(10, 1))
		if err := p.get(t, serverID, root); err != nil {
			t.Fatal(err)
		}
		time.Sleep(cfg.IdleTimeout + time.Second)
		if err := p.get(t, serverID, root); err != nil || o.opened != 2 {
			t.Errorf("closed by the server: %v, %d opened", err, o.opened)
		}
		p.net.Disconnect(clientID, serverID)
		if err := p.get(t, serverID, root); err != nil || o.opened != 3 {
			t.Errorf("disconnected: %v, %d opened", err, o.opened)
		}
		// A new stream that dies is not tried again.
		_ = p.client.Close()
		o = withCounting(t, p, cfg)
		p.net.Host(serverID).SetStreamHandler(ProtocolID, func(st network.Stream) { _ = st.Reset() })
		if err := p.get(t, serverID, root); status.Of(err) != status.Upstream || o.opened != 1 {
			t.Errorf("always dead: %v, %d opened", err, o.opened)
		}
	})
}

// TestNoRetryAfterBytes lets a reused stream die in the middle of an answer:
// what was proved is with the sink, and nobody asks again on his own.
func TestNoRetryAfterBytes(t *testing.T) {
	data := testData(3*b3.GroupSize, 1)
	net := testkit.NewNetwork(testkit.Options{})
	defer net.Close()
	net.Host(serverID).SetStreamHandler(ProtocolID, func(st network.Stream) {
		r := oap.NewReader(st, oap.MaxFrame)
		w := oap.NewWriter(st, oap.MaxFrame)
		for corr := uint64(1); ; corr++ {
			if _, err := r.Next(); err != nil {
				return
			}
			frames := honest(t, corr, nil, false, data)
			if corr == 2 {
				frames = frames[:3]
			}
			for _, f := range frames {
				if err := w.Write(f); err != nil {
					t.Error(err)
				}
			}
			if corr == 2 {
				_ = st.CloseWrite()
			}
		}
	})
	o := &counting{Host: net.Host(clientID)}
	client, err := NewClient(DefaultConfig(), ClientDeps{Host: o})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := GetRequest{Objs: []b3.Root{b3.Sum(data)}}
	if err := client.Get(t.Context(), serverID, req, newCollect(t, req.Objs...)); err != nil {
		t.Fatal(err)
	}
	c := newCollect(t, req.Objs...)
	err = client.Get(t.Context(), serverID, req, c)
	if status.Of(err) != status.Upstream || o.opened != 1 || c.groups[0] != 2 ||
		status.Of(c.errs[0]) != status.Upstream ||
		c.ended != 1 {
		t.Errorf("%v, %d opened, %v groups, End %v", err, o.opened, c.groups, c.errs)
	}
}

// TestStreamsPerPeer runs more requests than a peer may have streams: the rest
// wait, and no more streams than that are ever open.
func TestStreamsPerPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.StreamsPerPeer = 3
		p := newPair(t, testkit.Options{}, cfg)
		o := withCounting(t, p, cfg)
		p.store.gate = make(chan struct{})
		root := p.store.put(testData(10, 1))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := p.get(t, serverID, root); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if o.opened != 3 {
			t.Errorf("%d streams opened", o.opened)
		}
		// One who gives up while waiting leaves nothing behind.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.client.Get(ctx, serverID, GetRequest{Objs: []b3.Root{root}},
			newCollect(t, root)); status.Of(err) != status.Timeout {
			t.Errorf("waiting: %v", err)
		}
		close(p.store.gate)
		wg.Wait()
		if o.opened != 3 || p.client.open() != 3 || p.client.asked() != 0 {
			t.Errorf("%d opened, %d open, %d peers", o.opened, p.client.open(), p.client.asked())
		}
	})
}

// TestStreamsInAll asks more peers than there may be streams: the least
// recently used idle one is closed.
func TestStreamsInAll(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Streams = 2
	p := newPair(t, testkit.Options{}, cfg)
	o := withCounting(t, p, cfg)
	root := p.store.put(testData(10, 1))
	servers := []peer.ID{serverID}
	for i := range 2 {
		id := peer.ID(fmt.Sprint("server", i))
		p.net.Host(id).SetStreamHandler(ProtocolID,
			func(st network.Stream) { p.server.accept(context.WithoutCancel(t.Context()), st) })
		servers = append(servers, id)
	}
	for i, want := range []int{1, 2, 2, 3, 3, 4} {
		to := servers[[]int{0, 1, 0, 2, 0, 1}[i]]
		if err := p.get(t, to, root); err != nil {
			t.Fatal(err)
		}
		if o.opened != want || p.client.open() > 2 {
			t.Errorf("request %d: %d opened, want %d, %d open", i, o.opened, want, p.client.open())
		}
	}
}
