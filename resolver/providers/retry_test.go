package providers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/protocols/answer"
	"allium/protocols/record"
	"allium/protocols/status"
)

// TestRetries: only what may pass is tried again, at most three times in all, after
// growing pauses.
func TestRetries(t *testing.T) {
	for o, tries := range map[status.Outcome]int{
		status.Timeout: 3, status.TransportDown: 3, status.NoBootstrap: 3,
		status.HopExceeded: 1, status.Busy: 1, status.NotReady: 1, status.Internal: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, fails(o))
			begun := time.Now()
			_, err := w.resolve(t, rootOf(1), Query{})
			if n := w.dht.count(); status.Of(err) != o || n != tries {
				t.Errorf("%s: %v after %d tries", o, err, n)
			}
			least, most := 150*time.Millisecond, 300*time.Millisecond
			if tries == 1 {
				least, most = 0, 0
			}
			if d := time.Since(begun); d < least || d > most {
				t.Errorf("%s: took %s", o, d)
			}
			if n := testutil.ToFloat64(w.m.resolveRetries); int(n) != tries-1 {
				t.Errorf("%s: backoff_retries_total is %v", o, n)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, fails(status.Timeout), finds("d"))
		a, err := w.resolve(t, rootOf(1), Query{})
		want(t, "the second try", a, err, record.OriginDHT, answer.Signed, "d")
	})
}

// TestNoRetryThroughAnOpenBreaker: when most lookups fail, each is tried once, until
// the breaker has cooled down.
func TestNoRetryThroughAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, fails(status.TransportDown))
		tries := func(i uint64) int {
			before := w.dht.count()
			if _, err := w.resolve(t, rootOf(i), Query{}); status.Of(err) != status.TransportDown {
				t.Fatal(err)
			}
			return w.dht.count() - before
		}
		for i, n := range []int{3, 2, 1, 1, 1} { // it opens at the fifth failure
			if got := tries(uint64(i)); got != n {
				t.Errorf("lookup %d: %d tries, want %d", i, got, n)
			}
		}
		time.Sleep(w.cfg.Load().BreakerCooldown + time.Millisecond)
		w.dht.answer(finds("d"))
		for i := range uint64(3) { // closes it
			if _, err := w.resolve(t, rootOf(10+i), Query{}); err != nil {
				t.Error(err)
			}
		}
		w.dht.answer(fails(status.TransportDown))
		if got := tries(20); got != 3 {
			t.Errorf("closed again: %d tries", got)
		}
	})
}

// TestFirstPeer: a node that has just started waits for its first peer, within the
// deadline, and says no_bootstrap only then.
func TestFirstPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		start := time.Now()
		w.joins = true
		w.dht.answer(func(ctx context.Context, yield func(record.Provider, error) bool) {
			if time.Since(start) < 800*time.Millisecond {
				fails(status.NoBootstrap)(ctx, yield)
			} else {
				finds("d")(ctx, yield)
			}
		})
		a, err := w.resolve(t, rootOf(1), Query{Limit: 1})
		want(t, "the first peer", a, err, record.OriginDHT, answer.Signed, "d")
		if d := time.Since(start); d > 900*time.Millisecond {
			t.Errorf("took %s", d)
		}
		start = time.Now().Add(time.Hour)
		begun := time.Now()
		if _, err := w.resolve(t, rootOf(2), Query{}); status.Of(err) != status.NoBootstrap ||
			time.Since(begun) != w.cfg.Load().Deadline {
			t.Errorf("nobody came: %v after %s", err, time.Since(begun))
		}
	})
}

// TestTooManySearches: beyond those that run and wait, searches are refused with a
// computed wait, and none of those that wait is lost.
func TestTooManySearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Lookups, c.Deadline = 64, 10*time.Second },
			func(ctx context.Context, yield func(record.Provider, error) bool) {
				time.Sleep(100 * time.Millisecond)
				finds("d")(ctx, yield)
			})
		var mu sync.Mutex
		n := map[status.Outcome]int{}
		var wg sync.WaitGroup
		for i := range uint64(64 + 512 + 1000) {
			wg.Go(func() {
				_, err := w.resolve(t, rootOf(i), Query{})
				mu.Lock()
				defer mu.Unlock()
				n[status.Of(err)]++
				var e *status.Error
				if errors.As(err, &e) &&
					(e.Limit == nil || e.Limit.Cap != 64 || e.Limit.RetryAfter < 100*time.Millisecond) {
					t.Errorf("refused with %+v", e.Limit)
				}
			})
		}
		wg.Wait()
		if n[status.OK] != 576 || n[status.Busy] != 1000 {
			t.Errorf("got %v", n)
		}
	})
}
