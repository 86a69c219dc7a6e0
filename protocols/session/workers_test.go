package session_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// lethal ends the worker's goroutine when it is told to.
func lethal(s *session.Service) {
	s.Handle(oap.ProtoIndex, func(_ context.Context, _ peer.ID, r *session.Request) session.Response {
		switch r.Op {
		case "exit":
			runtime.Goexit()
		case "late":
			return session.Response{Err: badError{}}
		}
		return session.Response{Payload: r.Payload}
	})
}

// badError is an error of a handler that panics where no handler runs any more.
type badError struct{}

func (badError) Error() string { panic("no text") }

// TestWorkersAreReplaced: who dies answers with internal and is back within a
// second; requests go on meanwhile.
func TestWorkersAreReplaced(t *testing.T) {
	for _, op := range []string{"exit", "late"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
				cfg := session.DefaultConfig()
				cfg.Workers = 8
				n := start(t, net.Host("a"), cfg, lethal)
				defer n.stop()
				want := func(alive int) {
					t.Helper()
					synctest.Wait()
					if got, of := n.Workers(); got != alive || of != 8 {
						t.Errorf("%d of %d workers are alive, want %d", got, of, alive)
					}
				}
				w := dial(t, net.Host("b"), "a")
				w.hello()
				want(8)
				for corr := range uint64(4) {
					w.ask(corr+1, fmt.Sprintf(`{"op":%q}`, op))
					w.wantAnswer(corr+1, 500, "internal")
				}
				want(4)
				w.ask(9, `{"op":"x"}`)
				w.wantAnswer(9, 200, "x")
				time.Sleep(time.Second)
				want(8)
				if got := n.metric(t, "session_worker_deaths_total"); got != 4 {
					t.Errorf("%v deaths are counted", got)
				}
				if left := n.Drain(t.Context(), time.Second); left != 0 {
					t.Errorf("%d requests are in flight for ever", left)
				}
			})
		})
	}
}

// TestWorkersThatKeepDying: the pauses grow to two seconds, and are short
// again for who lived.
func TestWorkersThatKeepDying(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.Workers = 1
		n := start(t, net.Host("a"), cfg, lethal)
		defer n.stop()
		w := dial(t, net.Host("b"), "a")
		w.hello()
		corr := uint64(0)
		down := func() time.Duration { // kills the worker and returns for how long it is gone
			corr++
			w.ask(corr, `{"op":"exit"}`)
			w.wantAnswer(corr, 500, "internal")
			begun := time.Now()
			corr++
			w.ask(corr, `{"op":"x"}`)
			w.wantAnswer(corr, 200, "x")
			return time.Since(begun)
		}
		least := 100 * time.Millisecond
		for range 6 {
			if d := down(); d < least || d > 2*least {
				t.Errorf("gone for %s, want %s to %s", d, least, 2*least)
			}
			least = min(2*least, 2*time.Second)
		}
		time.Sleep(11 * time.Second)
		if d := down(); d > 200*time.Millisecond {
			t.Errorf("gone for %s after it had lived long", d)
		}
	})
}
