package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// TestTwoNodes: calls both ways, each over one session that its caller opened,
// however many ask at once.
func TestTwoNodes(t *testing.T) {
	bubble(t, testkit.Options{Latency: 10 * time.Millisecond}, func(t *testing.T, net *testkit.Network) {
		a, b := start(t, net.Host("a"), session.DefaultConfig(), echo),
			start(t, net.Host("b"), session.DefaultConfig(), echo)
		defer a.stop()
		defer b.stop()
		var wg sync.WaitGroup
		for i := range 150 {
			for from, to := range map[*node]peer.ID{a: "b", b: "a"} {
				wg.Go(func() {
					want := fmt.Sprintf(`{"op":"x","i":%d,"text":"%s"}`, i, strings.Repeat("ab", i*40))
					if p, err := from.Call(t.Context(), to, oap.ProtoIndex, []byte(want)); err != nil ||
						string(p) != want {
						t.Errorf("%d: %.40s, %v", i, p, err)
					}
				})
			}
		}
		wg.Wait()
		for _, n := range []*node{a, b} {
			if o := n.metric(t, "session_open_total"); o != 2 {
				t.Errorf("%v sessions opened", o)
			}
			if i := n.Sessions(); len(i) != 2 || i[0].Inflight+i[1].Inflight != 0 {
				t.Errorf("%+v", i)
			}
		}
		if rtt, err := a.Ping(t.Context(), "b"); err != nil || rtt != 20*time.Millisecond {
			t.Errorf("ping: %s, %v", rtt, err)
		}
		if _, err := a.Ping(t.Context(), "nobody"); status.Of(err) != status.TransportDown {
			t.Errorf("ping nobody: %v", err)
		}
	})
}

// TestLowerMaxFrame: what one side announces binds both.
func TestLowerMaxFrame(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		low := session.DefaultConfig()
		low.MaxFrame = oap.MinMaxFrame
		a := start(t, net.Host("a"), session.DefaultConfig(), nil)
		b := start(t, net.Host("b"), low, func(s *session.Service) {
			s.Handle(oap.ProtoIndex, func(_ context.Context, _ peer.ID, r *session.Request) session.Response {
				var q struct {
					session.Envelope
					Size int `json:"size"`
				}
				if err := r.Decode(&q); err != nil {
					return session.Response{Err: err}
				}
				return session.Response{Payload: make([]byte, q.Size)}
			})
		})
		defer a.stop()
		defer b.stop()
		ask := func(q string) ([]byte, error) { return a.Call(t.Context(), "b", oap.ProtoIndex, []byte(q)) }
		if p, err := ask(`{"op":"x","size":64}`); err != nil || len(p) != 64 {
			t.Fatal(len(p), err)
		}
		if a.MaxFrame(a.host.Conn("b")) != oap.MinMaxFrame || b.MaxFrame(b.host.Conn("a")) != oap.MinMaxFrame {
			t.Errorf("%d and %d", a.MaxFrame(a.host.Conn("b")), b.MaxFrame(b.host.Conn("a")))
		}
		if p, err := ask(`{"op":"x","size":65536}`); err != nil || len(p) != 65536 { // compressed
			t.Error(len(p), err)
		}
		if _, err := ask(`{"op":"x","size":200000}`); status.Of(err) != status.Internal {
			t.Errorf("an answer above max_frame: %v", err)
		}
		if _, err := ask(`{"op":"x","sise":1}`); status.Of(err) != status.BadRequest {
			t.Errorf("an unknown member: %v", err)
		}
	})
}

// TestHelloBothWaysAtOnce: two nodes that open a session with each other at the same
// time have one in each direction, and the smaller max_frame holds for both and
// stays when the sessions are over.
func TestHelloBothWaysAtOnce(t *testing.T) {
	for name, o := range map[string]testkit.Options{"near": {}, "far": {Latency: 50 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, func(t *testing.T, net *testkit.Network) {
				low := session.DefaultConfig()
				low.MaxFrame = oap.MinMaxFrame
				a, b := start(t, net.Host("a"), session.DefaultConfig(), echo), start(t, net.Host("b"), low, echo)
				defer a.stop()
				defer b.stop()
				sizes := func(when string) {
					if x, y := a.MaxFrame(a.host.Conn("b")), b.MaxFrame(b.host.Conn("a")); x != oap.MinMaxFrame ||
						y != oap.MinMaxFrame {
						t.Errorf("%s: max_frame is %d and %d", when, x, y)
					}
				}
				var wg sync.WaitGroup
				for from, to := range map[*node]peer.ID{a: "b", b: "a"} {
					wg.Go(func() {
						if _, err := from.Call(t.Context(), to, oap.ProtoIndex, []byte(`{"op":"x"}`)); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				sizes("both are open")
				for _, n := range []*node{a, b} {
					dirs := map[network.Direction]int{}
					for _, i := range n.Sessions() {
						dirs[i.Dir]++
					}
					if len(dirs) != 2 || dirs[network.DirInbound] != 1 || dirs[network.DirOutbound] != 1 {
						t.Errorf("sessions by direction: %v", dirs)
					}
				}
				time.Sleep(time.Hour)
				if n := len(a.Sessions()) + len(b.Sessions()); n != 0 {
					t.Errorf("%d sessions are left", n)
				}
				sizes("they are over")
			})
		})
	}
}

// TestDrain: GOAWAY goes out, new requests are refused, those in flight finish
// or are counted.
func TestDrain(t *testing.T) {
	for _, tc := range []struct {
		works, drain time.Duration
		unfinished   int
	}{{time.Second, 3 * time.Second, 0}, {5 * time.Second, 3 * time.Second, 1}} {
		bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
			n := start(t, net.Host("a"), session.DefaultConfig(), func(s *session.Service) {
				s.Handle(oap.ProtoIndex, func(ctx context.Context, _ peer.ID, _ *session.Request) session.Response {
					select {
					case <-time.After(tc.works):
					case <-ctx.Done():
					}
					return session.Response{Payload: []byte("done")}
				})
			})
			w := dial(t, net.Host("b"), "a")
			w.hello()
			w.ask(1, `{"op":"x"}`)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), tc.drain)
			defer cancel()
			var wg sync.WaitGroup
			var unfinished int
			wg.Go(func() {
				elapsed(t, min(tc.works, tc.drain), func() { unfinished = n.Drain(ctx, tc.drain) })
			})
			if f := w.recv(); f.Flags != oap.FlagEvent|oap.FlagStart|oap.FlagEnd || f.CorrID != 0 ||
				f.Proto != oap.ProtoControl || string(f.Payload) != `{"drain_ms":3000}` {
				t.Fatalf("%+v %s", f.Header, f.Payload)
			}
			w.ask(2, `{"op":"x"}`)
			w.wantAnswer(2, 503, `"draining"`)
			if _, err := n.Call(t.Context(), "b", oap.ProtoIndex, []byte(`{}`)); status.Of(err) != status.Draining {
				t.Errorf("a call during the drain: %v", err)
			}
			dial(t, net.Host("c"), "a").wantReset(0x1007)
			wg.Wait()
			n.stop()
			if unfinished != tc.unfinished {
				t.Errorf("%d unfinished, want %d", unfinished, tc.unfinished)
			}
			if tc.unfinished == 0 {
				w.wantAnswer(1, 200, "done")
				w.wantClose()
			} else {
				w.wantReset(0x1007)
			}
		})
	}
}

// TestStopWithAnswersUnsent: a stop that cuts an answer off says so: a clean
// end would make the peer ask again.
func TestStopWithAnswersUnsent(t *testing.T) {
	bubble(t, testkit.Options{Window: 1 << 10}, func(t *testing.T, net *testkit.Network) {
		n := start(t, net.Host("a"), session.DefaultConfig(), func(s *session.Service) {
			s.Handle(oap.ProtoIndex, func(context.Context, peer.ID, *session.Request) session.Response {
				return session.Response{Payload: make([]byte, 60<<10)}
			})
		})
		w := dial(t, net.Host("b"), "a")
		w.hello()
		w.ask(1, `{"op":"x"}`)
		synctest.Wait()
		n.stop()
		w.wantReset(0x1007)
	})
}

// TestRunAgain: a service that was stopped runs again, and never twice. All of its workers are there as soon as it says
// that it is ready.
func TestRunAgain(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		a, b := start(t, net.Host("a"), session.DefaultConfig(), echo),
			start(t, net.Host("b"), session.DefaultConfig(), nil)
		defer b.stop()
		if err := a.Run(t.Context(), func() { t.Error("ready") }); err == nil {
			t.Error("ran twice")
		}
		ask := func() error {
			_, err := b.Call(t.Context(), "a", oap.ProtoIndex, []byte(`{}`))
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		a.Drain(t.Context(), time.Second)
		a.stop()
		if err := ask(); status.Of(err) != status.TransportDown {
			t.Errorf("after the stop: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		ready := make(chan struct{})
		wg.Go(func() {
			_ = a.Run(ctx, func() {
				if alive, all := a.Workers(); alive != all {
					t.Errorf("%d of %d workers", alive, all)
				}
				close(ready)
			})
		})
		<-ready
		if err := ask(); err != nil {
			t.Error(err)
		}
		cancel()
		wg.Wait()
	})
}

// TestFaults: whatever the streams do, calls end in time with a typed error or
// their own answer, and nothing is left in flight.
func TestFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		opts := testkit.Options{
			Latency:  time.Duration(rapid.IntRange(0, 2000).Draw(rt, "latency ms")) * time.Millisecond,
			Window:   rapid.SampledFrom([]int{64, 4096, 256 << 10}).Draw(rt, "window"),
			MaxRead:  rapid.SampledFrom([]int{0, 1, 100}).Draw(rt, "max read"),
			CutAfter: rapid.SampledFrom([]int64{0, 10, 150, 1000, 5000}).Draw(rt, "cut after"),
		}
		cut := time.Duration(rapid.IntRange(0, 9000).Draw(rt, "disconnect after ms")) * time.Millisecond
		bubble(t, opts, func(t *testing.T, net *testkit.Network) {
			cfg := session.DefaultConfig()
			a, b := start(t, net.Host("a"), cfg, nil), start(t, net.Host("b"), cfg, func(s *session.Service) {
				s.Handle(oap.ProtoIndex, func(ctx context.Context, _ peer.ID, r *session.Request) session.Response {
					return session.Response{Payload: r.Payload}
				})
			})
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
					defer cancel()
					time.Sleep(time.Duration(i) * 200 * time.Millisecond)
					start := time.Now()
					p, err := a.Call(ctx, "b", oap.ProtoIndex, fmt.Appendf(nil, `{"i":%d}`, i))
					if took := time.Since(start); took > 8*time.Second {
						t.Errorf("call %d took %s", i, took)
					}
					switch o := status.Of(err); {
					case err == nil && !strings.HasSuffix(string(p), fmt.Sprintf(`"i":%d}`, i)):
						t.Errorf("call %d got the answer %s", i, p)
					case err != nil && o != status.Timeout && o != status.TransportDown && o != status.Busy:
						t.Errorf("call %d: %v (%s)", i, err, o)
					}
				})
			}
			time.Sleep(cut)
			net.Disconnect("a", "b")
			wg.Wait()
			time.Sleep(time.Minute) // idle or dead by now
			for _, n := range []*node{a, b} {
				if left := n.Drain(t.Context(), 0); left != 0 || len(n.Sessions()) != 0 {
					t.Errorf("%d in flight, %+v", left, n.Sessions())
				}
				n.stop()
				for _, l := range n.limits.Snapshot() {
					if l.Current != 0 {
						t.Errorf("%+v", l)
					}
				}
			}
		})
	})
}

func TestConfig(t *testing.T) {
	if err := session.DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*session.Config){
		"idle_timeout":  func(c *session.Config) { c.IdleTimeout = c.RequestTimeout },
		"control_rate":  func(c *session.Config) { c.ControlRate = 0 },
		"egress_policy": func(c *session.Config) { c.EgressPolicy = "newest" },
		"egress_bytes":  func(c *session.Config) { c.EgressBytes = c.PeerEgressBytes - 1 },
		"sessions":      func(c *session.Config) { c.Sessions = 0 },
	} {
		c := session.DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "session."+name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := session.New(c, session.Deps{Host: &testkit.Host{}}); err == nil {
			t.Errorf("%s: New took it", name)
		}
	}
	if _, err := session.New(session.DefaultConfig(), session.Deps{}); err == nil {
		t.Error("New took no host")
	}
}
