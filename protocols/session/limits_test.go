package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// TestSlowReaderHurtsOnlyItself: a peer that asks and does not read its
// answers is reset; another is served all the while.
func TestSlowReaderHurtsOnlyItself(t *testing.T) {
	bubble(t, testkit.Options{Window: 8 << 10}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.ControlRate = 1 << 20
		big := strings.Repeat("z", 60<<10)
		n := start(t, net.Host("a"), cfg, func(s *session.Service) {
			s.Handle(oap.ProtoIndex, func(context.Context, peer.ID, *session.Request) session.Response {
				return session.Response{Payload: []byte(big)}
			})
		})
		defer n.stop()
		slow, good := dial(t, net.Host("slow"), "a"), dial(t, net.Host("good"), "a")
		slow.hello()
		good.hello()
		asked := 0
		_ = slow.stream.SetWriteDeadline(time.Now().Add(4 * time.Second))
		for corr := range uint64(2000) {
			if slow.w.Write(oap.Frame{Header: oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: corr + 1},
				Payload: []byte(`{"op":"x"}`)}) != nil {
				break // not read any more
			}
			asked++
		}
		if asked < 500 || asked == 2000 {
			t.Errorf("%d requests were taken from a peer that does not read", asked)
		}
		elapsed(t, 0, func() {
			good.ask(1, `{"op":"x"}`)
			good.wantAnswer(1, 200, big)
		})
		time.Sleep(7 * time.Second) // the window took bytes at 0 s: nothing since is seen at 10 s
		if slow.stream.Err() == nil || n.metric(t, "io_timeouts_total", "session_write") != 1 {
			t.Errorf("the slow peer's stream: %v", slow.stream.Err())
		}
		good.ask(2, `{"op":"x"}`)
		good.wantAnswer(2, 200, big)
		for _, l := range n.limits.Snapshot() {
			if l.Name == "session.egress" && (l.Current != 0 || l.Peak == 0 ||
				l.Peak > int64(cfg.PeerEgressBytes)+int64(len(big))) {
				t.Errorf("%+v", l)
			}
		}
	})
}

// TestWorkersAndIngress: when every worker is busy and the queue is full the
// next request is refused; what expires in the queue is not run.
func TestWorkersAndIngress(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.Workers, cfg.Ingress = 1, 2
		runs := 0
		n := start(t, net.Host("a"), cfg, func(s *session.Service) {
			s.Handle(oap.ProtoIndex, func(ctx context.Context, _ peer.ID, _ *session.Request) session.Response {
				runs++
				time.Sleep(time.Second)
				return session.Response{}
			})
		})
		defer n.stop()
		w := dial(t, net.Host("b"), "a")
		w.hello()
		w.ask(1, `{"op":"x"}`)
		synctest.Wait()
		w.ask(2, `{"op":"x","deadline_ms":500}`)
		w.ask(3, `{"op":"x"}`)
		w.ask(4, `{"op":"x"}`)
		w.wantAnswer(4, 429, `"limit":"session.ingress"`)
		w.wantAnswer(1, 200, "")
		w.wantAnswer(2, 504, "timeout")
		w.wantAnswer(3, 200, "")
		if runs != 2 || n.metric(t, "session_requests_expired_total") != 1 {
			t.Errorf("%d requests run, %v expired", runs, n.metric(t, "session_requests_expired_total"))
		}
		if n.metric(t, "queue_dropped_total", "session.ingress") != 1 {
			t.Error("the refusal is not counted")
		}
	})
}

// TestSessionsAreBounded: one more than Sessions is reset.
func TestSessionsAreBounded(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.Sessions = 2
		n := start(t, net.Host("a"), cfg, echo)
		defer n.stop()
		for _, p := range []peer.ID{"b", "c"} {
			dial(t, net.Host(p), "a").hello()
		}
		dial(t, net.Host("d"), "a").wantReset(network.StreamResourceLimitExceeded)
		if _, err := n.Call(t.Context(), "d", oap.ProtoIndex, []byte(`{}`)); status.Of(err) != status.Busy {
			t.Errorf("a call beyond the limit: %v", err)
		}
		other := start(t, net.Host("e"), session.DefaultConfig(), nil)
		defer other.stop()
		_, err := other.Call(t.Context(), "a", oap.ProtoIndex, []byte(`{}`))
		var e *status.Error
		if !errors.As(err, &e) || e.Outcome != status.Busy || e.Limit == nil || e.Limit.RetryAfter != time.Second {
			t.Errorf("a call to a peer that takes no more sessions: %v", err)
		}
	})
}
