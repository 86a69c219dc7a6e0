package session_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// mover is a host that can move to another network, so that what a network
// remembers of its streams does not count.
type mover struct {
	*testkit.Host
	handle network.StreamHandler
}

func (m *mover) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	m.handle = f
	m.Host.SetStreamHandler(id, f)
}

func (m *mover) move(h *testkit.Host) {
	m.Host = h
	h.SetStreamHandler(session.ProtocolID, m.handle)
}

// held is what the heap has after a collection, in objects.
func held() int64 {
	for range 3 { // pools let go of what they have with the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapObjects)
}

// TestNothingGrows: sessions that come and go, however they end, and what is
// asked on them leave nothing behind.
func TestNothingGrows(t *testing.T) {
	const peers, asks = 24, 20
	rounds := 40
	if testing.Short() {
		rounds = 20
	}
	h := &mover{Host: testkit.NewNetwork(testkit.Options{}).Host("server")}
	cfg := session.DefaultConfig()
	cfg.ControlRate = 1 << 20
	svc, err := session.New(cfg, session.Deps{Host: h})
	if err != nil {
		t.Fatal(err)
	}
	echo(svc)
	defer run(t, svc)()
	round := func() {
		net := testkit.NewNetwork(testkit.Options{})
		defer net.Close()
		h.move(net.Host("server"))
		var wg sync.WaitGroup
		for i := range peers {
			wg.Go(func() { visit(t, net.Host(peer.ID(fmt.Sprint("peer ", i))), i, asks) })
		}
		wg.Wait()
		other := start(t, net.Host("other"), session.DefaultConfig(), echo)
		for range asks {
			if _, err := svc.Call(t.Context(), "other", oap.ProtoIndex, []byte(`{"op":"x"}`)); err != nil {
				t.Error(err)
			}
		}
		other.stop()
		testkit.Eventually(t, "sessions are left", func() bool { return svc.Entries() == 0 })
	}
	for range 4 {
		round()
	}
	goroutines, objects := runtime.NumGoroutine(), held()
	for range rounds {
		round()
	}
	testkit.Eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= goroutines })
	// One object left by each session would be peers × rounds.
	if more := held() - objects; more > int64(peers*rounds/2) {
		t.Errorf("%d objects more after %d sessions and %d requests", more, (peers+1)*rounds, (peers+1)*rounds*asks)
	}
}

// visit opens a session, asks, and ends it in one of several ways.
func visit(t *testing.T, h *testkit.Host, i, asks int) {
	w := dial(t, h, "server")
	if i%6 == 5 { // half a HELLO
		_, _ = w.stream.Write(make([]byte, 3))
		_ = w.stream.Reset()
		return
	}
	w.hello()
	for n := range uint64(asks) {
		w.ask(n+1, `{"op":"x"}`)
		w.wantAnswer(n+1, 200, `{"op":"x"}`)
	}
	switch i % 6 {
	case 0, 1:
		_ = w.stream.Close()
	case 2:
		_ = w.stream.Reset()
	case 3: // with a request that nobody waits for
		w.ask(1000, `{"op":"x"}`)
		_ = w.stream.Reset()
	case 4: // refused
		w.send(oap.Header{Flags: whole}, `{}`)
		w.wantReset(reset(oap.ReasonBadHello))
	}
}

// TestASessionDoesNotGrow: what is asked and refused on a session that stays
// open leaves nothing behind at either end.
func TestASessionDoesNotGrow(t *testing.T) {
	asks := 8000
	if testing.Short() {
		asks = 1000
	}
	net := testkit.NewNetwork(testkit.Options{})
	defer net.Close()
	cfg := session.DefaultConfig()
	cfg.ControlRate = 1 << 20
	client, server := start(t, net.Host("client"), cfg, nil), start(t, net.Host("server"), cfg, echo)
	defer client.stop()
	defer server.stop()
	ask := func(n int) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range n / 8 {
					if _, err := client.Call(t.Context(), "server", oap.ProtoIndex, []byte(`{"op":"x"}`)); err != nil {
						t.Error(err)
					}
					if i%4 > 0 {
						continue
					}
					if _, err := client.Call(t.Context(), "server", oap.ProtoRepair,
						[]byte(`{}`)); status.Of(err) != status.BadFrame {
						t.Error(err)
					}
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					if _, err := client.Call(ctx, "server", oap.ProtoIndex,
						[]byte(`{}`)); status.Of(err) != status.Canceled {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	quiet := func() bool {
		for _, s := range append(client.Sessions(), server.Sessions()...) {
			if s.Inflight > 0 {
				return false
			}
		}
		return len(client.Sessions()) == 1 && len(server.Sessions()) == 1
	}
	ask(1000)
	testkit.Eventually(t, "the session is not quiet", quiet)
	objects := held()
	ask(asks)
	testkit.Eventually(t, "the session is not quiet", quiet)
	// One object left by each request would be as many as were asked.
	if more := held() - objects; more > int64(asks/10) {
		t.Errorf("%d objects more after %d requests", more, asks)
	}
	for _, n := range []*node{client, server} {
		for _, l := range n.limits.Snapshot() {
			if l.Current != 0 && l.Name != "session.sessions" {
				t.Errorf("%+v", l)
			}
		}
	}
}
