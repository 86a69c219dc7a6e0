package resolver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/protocols/status"
)

func breakerTargets(closed, half, open int) string {
	return fmt.Sprintf(`
# HELP breaker_targets Peers with a breaker, by its state.
# TYPE breaker_targets gauge
breaker_targets{state="closed"} %d
breaker_targets{state="half-open"} %d
breaker_targets{state="open"} %d
`, closed, half, open)
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		w := newWorld(t, func(c *Config, d *Deps) { c.Tries = 1; d.Metrics = reg })
		p := w.net.peer("a")
		broken := true
		p.refuse = func(int) error {
			if broken {
				return status.Errorf(status.Upstream, "broken")
			}
			return nil
		}
		next := uint64(100)
		fetch := func() status.Outcome {
			next++
			b := randomBlob(next, 10)
			p.objects[b.root] = b
			w.has([]peer.ID{"a"}, b)
			_, err := w.Fetch(t.Context(), b.root, FetchOptions{})
			return status.Of(err)
		}
		expect := func(o status.Outcome, requests int) {
			t.Helper()
			before := len(w.net.requests("a"))
			if got := fetch(); got != o {
				t.Errorf("got %s, want %s", got, o)
			}
			if n := len(w.net.requests("a")) - before; n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
		}
		targets := func(closed, half, open int) {
			t.Helper()
			if err := testutil.GatherAndCompare(reg, strings.NewReader(breakerTargets(closed, half, open)),
				"breaker_targets"); err != nil {
				t.Error(err)
			}
		}

		for range 4 { // four failures are too few to judge
			expect(status.Upstream, 1)
		}
		targets(1, 0, 0)
		expect(status.Upstream, 1)
		targets(0, 0, 1)
		expect(status.BreakerOpen, 0)
		time.Sleep(5*time.Second + time.Millisecond)
		targets(0, 1, 0)
		expect(status.Upstream, 1) // the probe fails
		expect(status.BreakerOpen, 0)
		time.Sleep(5*time.Second + time.Millisecond)
		broken = false
		expect(status.OK, 1)
		targets(0, 1, 0) // one probe of two
		expect(status.OK, 1)
		targets(1, 0, 0)
		if n := w.counter(t, "breaker_open_total"); n != 2 {
			t.Errorf("breaker_open_total is %v, want 2", n)
		}
	})
}
