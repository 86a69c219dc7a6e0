package session_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// refusal receives the answer to corr, which is not a success.
func (w *wire) refusal(corr uint64) error {
	w.t.Helper()
	for {
		f := w.recv()
		if f.CorrID == corr {
			return oap.PayloadError(f.Code, f.Payload)
		}
	}
}

// TestEveryBusyTellsTheWait: whatever is full, who is refused learns what, how
// much of it is taken, and when to come again by the pace at which it empties.
func TestEveryBusyTellsTheWait(t *testing.T) {
	const paced = 30 // repetitions, after which the pace is known
	for _, tc := range []struct {
		limit   string
		change  func(*session.Config)
		provoke func(t *testing.T, net *testkit.Network, n *node, w *wire) error
		current int64
		cap     int64
		wait    time.Duration
	}{
		{
			limit: "session.control_rate", current: 2, cap: 2, wait: 500 * time.Millisecond, // until there is a token
			change: func(c *session.Config) { c.ControlRate = 2 },
			provoke: func(_ *testing.T, _ *testkit.Network, _ *node, w *wire) error {
				for corr := range uint64(3) {
					w.ask(corr+1, `{"op":"x"}`)
				}
				return w.refusal(3)
			},
		},
		{
			// four before it, five a second
			limit: "session.ingress", current: 4, cap: 4, wait: 4 * 200 * time.Millisecond,
			change: func(c *session.Config) { c.Workers, c.Ingress = 1, 4 },
			provoke: func(_ *testing.T, _ *testkit.Network, _ *node, w *wire) error {
				for corr := range uint64(paced) {
					w.ask(corr+1, `{"op":"sleep","ms":200}`)
					w.wantAnswer(corr+1, 200, "")
				}
				for corr := range uint64(6) {
					w.ask(100+corr, `{"op":"sleep","ms":200}`)
					synctest.Wait()
				}
				return w.refusal(105)
			},
		},
		{
			limit: "session.max_inflight", current: 1, cap: 1, wait: 300 * time.Millisecond,
			change: func(c *session.Config) { c.MaxInflight = 1 },
			provoke: func(_ *testing.T, _ *testkit.Network, _ *node, w *wire) error {
				for corr := range uint64(paced) {
					w.ask(corr+1, `{"op":"sleep","ms":300}`)
					w.wantAnswer(corr+1, 200, "")
				}
				w.ask(100, `{"op":"sleep","ms":300}`)
				w.ask(101, `{"op":"x"}`)
				return w.refusal(101)
			},
		},
		{
			limit: "session.peer_egress_bytes", current: 900_000, cap: 1 << 20, wait: time.Second, // 300 kB a second
			change: func(c *session.Config) { c.PeerEgressBytes = 1 << 20 },
			provoke: func(_ *testing.T, _ *testkit.Network, _ *node, w *wire) error {
				for corr := range uint64(paced) {
					w.ask(corr+1, `{"op":"sleep","ms":1000,"size":300000}`)
					w.wantAnswer(corr+1, 200, "")
				}
				for corr := range uint64(4) {
					w.ask(100+corr, `{"op":"x","size":300000}`)
					synctest.Wait()
				}
				return w.refusal(103)
			},
		},
		{
			limit: "session.egress", current: 900_000, cap: 1 << 20, wait: time.Second,
			change: func(c *session.Config) { c.PeerEgressBytes, c.EgressBytes = 1<<20, 1<<20 },
			provoke: func(t *testing.T, net *testkit.Network, _ *node, w *wire) error {
				for corr := range uint64(paced) {
					w.ask(corr+1, `{"op":"sleep","ms":1000,"size":300000}`)
					w.wantAnswer(corr+1, 200, "")
				}
				for i := range 3 { // who reads nothing
					o := dial(t, net.Host(peer.ID(fmt.Sprint("c", i))), "a")
					o.hello()
					o.ask(1, `{"op":"x","size":300000}`)
					synctest.Wait()
				}
				w.ask(100, `{"op":"x","size":300000}`)
				return w.refusal(100)
			},
		},
		{
			limit: "session.sessions", current: 2, cap: 2, wait: time.Second,
			change: func(c *session.Config) { c.Sessions = 2 },
			provoke: func(t *testing.T, net *testkit.Network, n *node, _ *wire) error {
				for i := range paced { // one comes and goes a second
					o := dial(t, net.Host(peer.ID(fmt.Sprint("c", i))), "a")
					o.hello()
					time.Sleep(time.Second)
					_ = o.stream.Close()
					synctest.Wait()
				}
				dial(t, net.Host("d"), "a").hello()
				_, err := n.Call(t.Context(), "e", oap.ProtoIndex, []byte(`{}`))
				return err
			},
		},
	} {
		t.Run(tc.limit, func(t *testing.T) {
			bubble(t, testkit.Options{Window: 8 << 10}, func(t *testing.T, net *testkit.Network) {
				cfg := session.DefaultConfig()
				cfg.ControlRate, cfg.IdleTimeout = 1<<20, time.Hour
				tc.change(&cfg)
				n := start(t, net.Host("a"), cfg, large)
				defer n.stop()
				w := dial(t, net.Host("b"), "a")
				w.hello()
				err := tc.provoke(t, net, n, w)
				var e *status.Error
				if !errors.As(err, &e) || e.Outcome != status.Busy || e.Limit == nil {
					t.Fatalf("got %v, want busy with a limit", err)
				}
				l := e.Limit
				if l.Name != tc.limit || l.Current != tc.current || l.Cap != tc.cap || l.RetryAfter < tc.wait*9/10 ||
					l.RetryAfter > tc.wait*11/10 {
					t.Errorf("got %+v, want %s, %d of %d, in about %s", *l, tc.limit, tc.current, tc.cap, tc.wait)
				}
			})
		})
	}
}
