package object

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// TestPeerInflight fills the places of one peer: the next request is busy with
// the limit named, and another peer is served.
func TestPeerInflight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.PeerInflight = 3
		p := newPair(t, testkit.Options{}, cfg)
		p.store.gate = make(chan struct{})
		root := p.store.put(testData(10, 1))
		a := p.ask(t)
		for i := range 4 {
			a.want(uint64(i), getOf(root))
		}
		synctest.Wait()
		close(p.store.gate)
		for i := range 4 {
			f, _ := a.end()
			if want := uint16(200); i < 3 && f.Code != want {
				t.Errorf("request %d: %d", i, f.Code)
			}
			if i == 3 {
				var r status.Report
				if err := oap.DecodeJSON(f.Payload, &r, false); err != nil || f.Code != 429 ||
					r.Limit != "object.peer_inflight" ||
					r.Cap != 3 || r.RetryAfterMS < 100 {
					t.Errorf("the fourth: %d %+v %v", f.Code, r, err)
				}
			}
		}
		a.want(9, getOf(root))
		if f, _ := a.end(); f.Code != 200 {
			t.Errorf("afterwards: %d", f.Code)
		}
	})
}

// TestServingBusy takes every serving permit: a request waits for one no
// longer than the permit wait or its own deadline.
func TestServingBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Serving = 1
		p := newPair(t, testkit.Options{}, cfg)
		p.store.gate = make(chan struct{})
		root := p.store.put(testData(10, 1))
		holder := p.ask(t)
		holder.want(1, getOf(root))
		synctest.Wait()

		begin := time.Now()
		err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}}, newCollect(t, root))
		var e *status.Error
		if status.Of(err) != status.Busy || !errors.As(err, &e) || e.Limit == nil || e.Limit.Name != "object.serving" ||
			time.Since(begin) != cfg.PermitWait {
			t.Errorf("%v, limit %+v, after %s", err, e, time.Since(begin))
		}
		begin = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = p.client.Get(ctx, serverID, GetRequest{Objs: []b3.Root{root}}, newCollect(t, root))
		if status.Of(err) != status.Timeout || time.Since(begin) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		close(p.store.gate)
		if f, _ := holder.end(); f.Code != 200 {
			t.Errorf("the holder: %d", f.Code)
		}
		if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}},
			newCollect(t, root)); err != nil {
			t.Error(err)
		}
	})
}

// TestDeadline gives a request less time than its store takes.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{}, DefaultConfig())
		p.store.gate = make(chan struct{})
		defer close(p.store.gate)
		root := p.store.put(testData(10, 1))
		a := p.ask(t)
		begin := time.Now()
		a.want(1, `{"op":"get","objs":["`+root.String()+`","`+root.String()+`"],"deadline_ms":1500}`)
		if f, _ := a.end(); f.Code != 504 || time.Since(begin) != 1500*time.Millisecond {
			t.Errorf("%d after %s", f.Code, time.Since(begin))
		}
	})
}

// TestStreamsBound opens one stream too many.
func TestStreamsBound(t *testing.T) {
	cfg := DefaultConfig()
	cfg.InboundStreams = 2
	p := newPair(t, testkit.Options{}, cfg)
	root := p.store.put(testData(10, 1))
	for range 2 {
		a := p.ask(t)
		a.want(1, getOf(root))
		a.end()
	}
	if code := p.ask(t).reset(); code != network.StreamResourceLimitExceeded {
		t.Errorf("reset with %#x", code)
	}
	// The client says busy for it.
	err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}}, newCollect(t, root))
	if status.Of(err) != status.Busy {
		t.Errorf("%v", err)
	}
}

// TestDrain stops a server with one request under way: new ones get 503, the
// old one its answer.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{}, DefaultConfig())
		p.store.gate = make(chan struct{})
		root := p.store.put(testData(10, 1))
		a, b := p.ask(t), p.ask(t)
		a.want(1, getOf(root))
		synctest.Wait()
		drained := make(chan struct{})
		go func() {
			p.server.Drain(t.Context())
			close(drained)
		}()
		synctest.Wait()
		b.want(1, getOf(root))
		if f, _ := b.end(); f.Code != 503 || !strings.Contains(string(f.Payload), `"draining"`) {
			t.Errorf("%d %s", f.Code, f.Payload)
		}
		select {
		case <-drained:
			t.Error("drained with a request under way")
		default:
		}
		close(p.store.gate)
		if f, _ := a.end(); f.Code != 200 {
			t.Errorf("%d", f.Code)
		}
		<-drained
		p.server.Drain(t.Context()) // again changes nothing
	})
}

// TestDrainDeadline stops a server whose request does not end: Drain gives up
// with its context, and the end of Run counts what it cut off.
func TestDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{}, DefaultConfig())
		p.store.gate = make(chan struct{})
		root := p.store.put(testData(10, 1))
		a := p.ask(t)
		a.want(1, getOf(root))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		p.server.Drain(ctx)
		if time.Since(begin) != 3*time.Second {
			t.Errorf("drained in %s", time.Since(begin))
		}
		p.stop()
		if code := a.reset(); code != network.StreamShutdown {
			t.Errorf("reset with %#x", code)
		}
		if n := counter(t, p.server.metrics.aborted); n != 1 {
			t.Errorf("%v requests aborted", n)
		}
	})
}

// TestIdle leaves a stream alone, and one in the middle of a frame.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		p := newPair(t, testkit.Options{}, cfg)
		root := p.store.put(testData(10, 1))
		a := p.ask(t)
		a.want(1, getOf(root))
		a.end()
		begin := time.Now()
		if code := a.reset(); code != network.StreamGarbageCollected || time.Since(begin) != cfg.IdleTimeout {
			t.Errorf("idle: reset with %#x after %s", code, time.Since(begin))
		}
		a = p.ask(t)
		begin = time.Now()
		if _, err := a.st.Write(make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		if code := a.reset(); code != codeTimeout || time.Since(begin) != cfg.ReadTimeout {
			t.Errorf("half a frame: reset with %#x after %s", code, time.Since(begin))
		}
		// While an answer is under way a stream is not idle.
		p.store.gate = make(chan struct{})
		a = p.ask(t)
		a.want(1, getOf(root))
		time.Sleep(10 * cfg.IdleTimeout)
		close(p.store.gate)
		if f, _ := a.end(); f.Code != 200 {
			t.Errorf("slow: %d", f.Code)
		}
	})
}

// TestReaderStops reads slowly and then stops in the middle of an answer: the
// server gives up and frees what the answer held.
func TestReaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		p := newPair(t, testkit.Options{Window: 64 << 10}, cfg)
		root := p.store.put(testData(10*b3.GroupSize, 1))
		a := p.ask(t)
		a.want(1, getOf(root))
		synctest.Wait()
		if p.store.open.Load() != 1 {
			t.Errorf("%d objects open", p.store.open.Load())
		}
		buf := make([]byte, 32<<10)
		for range 5 { // one read each 4 s, at the rate
			time.Sleep(cfg.WriteTimeout - time.Second)
			if _, err := io.ReadFull(a.st, buf); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * cfg.WriteTimeout)
		synctest.Wait()
		if p.store.open.Load() != 0 {
			t.Error("the object is still open")
		}
		if _, err := a.st.Read(buf); err == nil {
			t.Error("the stream lives")
		}
		idle(t, p.server)
	})
}

// TestSlowStore serves small objects from a store that takes a second for
// each: the peer sees each of them soon after it was found.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{}, DefaultConfig())
		p.server.deps.Store = slow{p.store}
		var objs []b3.Root
		for i := range 10 {
			objs = append(objs, p.store.put(testData(100, uint64(i))))
		}
		if err := p.client.Get(t.Context(), serverID, GetRequest{Objs: objs}, newCollect(t, objs...)); err != nil {
			t.Error(err)
		}
	})
}

type slow struct{ *memStore }

func (s slow) OpenObject(ctx context.Context, root b3.Root) (Object, error) {
	time.Sleep(time.Second)
	return s.memStore.OpenObject(ctx, root)
}

// TestClientGone resets a stream in the middle of an answer.
func TestClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, testkit.Options{Window: 64 << 10}, DefaultConfig())
		root := p.store.put(testData(10*b3.GroupSize, 1))
		a := p.ask(t)
		a.want(1, getOf(root))
		a.want(2, getOf(root))
		synctest.Wait()
		_ = a.st.Reset()
		synctest.Wait()
		idle(t, p.server)
	})
}

// idle checks that a server holds nothing for anyone.
func idle(t testing.TB, s *Server) {
	t.Helper()
	if err := s.bounds.egress.TryAcquire(int64(s.cfg.Load().EgressBytes)); err != nil {
		t.Errorf("egress is held: %v", err)
	} else {
		s.bounds.egress.Release(int64(s.cfg.Load().EgressBytes))
	}
	inflight := s.requests.Inside()
	s.peers.mu.Lock()
	peers := len(s.peers.m)
	s.peers.mu.Unlock()
	if inflight != 0 || peers != 0 {
		t.Errorf("%d requests in flight, %d peers", inflight, peers)
	}
}
