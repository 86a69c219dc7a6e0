package providers

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// testConfig is that of SPEC §2.
func testConfig() Config {
	return Config{
		Deadline: 1200 * time.Millisecond, HedgeAfter: 150 * time.Millisecond, StallTimeout: 5 * time.Second,
		CacheEntries: 1000, CacheBytes: 1 << 20, PositiveTTL: 10 * time.Second,
		NegativeTTL: 2 * time.Second, Lookups: 64,
		PeerRequests: 8, PeerRequestsWaiting: 512,
		BreakerPeers: 4096, BreakerWindow: 10 * time.Second, BreakerMinCalls: 5,
		BreakerErrors: 0.5, BreakerCooldown: 5 * time.Second, BreakerProbes: 2,
	}
}

// The state machine: closed, open, half-open, and what moves it. Requests are
// "+" that succeed, "-" that fail, "." that are no matter; "r" is refused; "5s"
// passes; "closed", "open" and "half-open" are checked.
func TestBreakerTransitions(t *testing.T) {
	for name, steps := range map[string]string{
		"too few to judge":            "- - - - closed",
		"five failures":               "- - - - - open r r",
		"half is not more than half":  "+ + + - - - closed",
		"more than half":              "+ + - - - open r",
		"no matter":                   ". . . . . . . - - - - closed - open",
		"the window slides":           "- - - - 11s - closed",
		"within the window":           "- - - - 8s - open",
		"cooling down":                "- - - - - open 4s r open",
		"cooled down":                 "- - - - - open 5s half-open",
		"two probes close":            "- - - - - 5s + half-open + closed",
		"a failed probe opens":        "- - - - - 5s - open r 5s half-open",
		"a late failed probe too":     "- - - - - 5s + - open r",
		"no matter is no probe":       "- - - - - 5s . half-open + half-open + closed",
		"closed again, counted anew":  "- - - - - 5s + + closed - - - - closed - open",
		"old failures do not add up":  "- - - - - 5s + + - - closed 11s - - - closed",
		"a success does not end open": "- - - - - open 1s r 1s r 3s half-open",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPeers(testConfig(), nil, func() {})
				for i, step := range strings.Fields(steps) {
					if d, err := time.ParseDuration(step); err == nil {
						time.Sleep(d + time.Millisecond)
						continue
					}
					if len(step) > 1 {
						if got := b.get("a").breaker.Load().State().String(); got != step {
							t.Fatalf("step %d: %s, want %s", i, got, step)
						}
						continue
					}
					done, err := b.enter(t.Context(), "a")
					if refused := status.Of(err) == status.BreakerOpen; refused != (step == "r") {
						t.Fatalf("step %d: %v", i, err)
					}
					switch step {
					case "+":
						done(nil)
					case "-":
						done(status.Errorf(status.Timeout, "no"))
					case ".":
						done(status.Errorf(status.Busy, "no"))
					}
				}
			})
		})
	}
	t.Run("more probes than allowed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newPeers(testConfig(), nil, func() {})
			for range 5 {
				done, _ := b.enter(t.Context(), "a")
				done(status.Errorf(status.Timeout, "no"))
			}
			time.Sleep(5*time.Second + time.Millisecond)
			var done [2]func(error)
			for i := range done {
				var err error
				if done[i], err = b.enter(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.enter(t.Context(), "a"); status.Of(err) != status.BreakerOpen {
				t.Errorf("a third: %v", err)
			}
			if _, err := b.enter(t.Context(), "other"); err != nil {
				t.Errorf("another peer: %v", err)
			}
			done[0](nil)
			done[1](nil)
		})
	})
}

// Failures that lie further back than the window do not count.
func TestBreakerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPeers(testConfig(), nil, func() { t.Error("it opened") })
		for range 20 {
			done, err := b.enter(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			done(status.Errorf(status.Timeout, "no"))
			time.Sleep(3 * time.Second)
		}
	})
}

// What is not the peer's fault, or is no fault, opens no breaker.
func TestBreakerJudges(t *testing.T) {
	for _, err := range []error{
		nil,
		status.Errorf(status.NotFound, "no"),
		status.Errorf(status.Busy, "no"),
		status.Errorf(status.Canceled, "no"),
		status.Errorf(status.Draining, "no"),
		Final(status.Errorf(status.Internal, "our disk")),
	} {
		b := newPeers(testConfig(), nil, func() { t.Errorf("%v opened it", err) })
		for range 50 {
			done, e := b.enter(t.Context(), "a")
			if e != nil {
				t.Fatal(e)
			}
			done(err)
		}
	}
	for _, o := range []status.Outcome{status.Corrupt, status.Upstream, status.Timeout, status.TransportDown,
		status.Internal, status.BadFrame} {
		opened := 0
		b := newPeers(testConfig(), nil, func() { opened++ })
		for range 5 {
			done, e := b.enter(t.Context(), "a")
			if e != nil {
				t.Fatal(e)
			}
			done(status.Errorf(o, "no"))
		}
		if opened != 1 {
			t.Errorf("five times %s opened it %d times", o, opened)
		}
	}
}

func TestBreakerTableIsBounded(t *testing.T) {
	cfg := testConfig()
	cfg.BreakerPeers = 10
	b := newPeers(cfg, nil, func() {})
	for i := range 1000 {
		if _, err := b.enter(t.Context(), peer.ID(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.table.Len(); n != 10 {
		t.Errorf("%d breakers, want 10", n)
	}
}
