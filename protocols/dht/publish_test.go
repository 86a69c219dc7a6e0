package dht

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
	"allium/internal/jitter"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fakePublish is a network that takes records, or does not.
type fakePublish struct {
	peers  atomic.Int64
	fail   atomic.Bool
	panics atomic.Bool
	takes  time.Duration

	mu     sync.Mutex
	got    map[b3.Root][]time.Time
	handed []b3.Root // to the sweep
	now    int
	max    int
}

func (p *fakePublish) publish(ctx context.Context, r b3.Root) (int, error) {
	if p.panics.Load() {
		panic("as told")
	}
	p.mu.Lock()
	p.now++
	p.max = max(p.max, p.now)
	p.mu.Unlock()
	ok := jitter.Sleep(ctx, p.takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
	if !ok {
		return 0, ctx.Err()
	}
	if p.fail.Load() {
		return 0, errors.New("nobody took it")
	}
	p.got[r] = append(p.got[r], time.Now())
	return 1, nil
}

func (p *fakePublish) done(_ context.Context, r b3.Root) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handed = append(p.handed, r)
	return nil
}

// handedOver is how many were handed to the sweep.
func (p *fakePublish) handedOver() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.handed)
}

func (p *fakePublish) count(r b3.Root) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got[r])
}

// published is how many roots were published at all.
func (p *fakePublish) published() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got)
}

// most is how many calls there were at one time.
func (p *fakePublish) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.max
}

func startAnnouncer(t *testing.T, p *fakePublish, queue int) *publisher {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.AnnounceQueue = queue
	p.got = map[b3.Root][]time.Time{}
	d := Deps{Env: env.Env{Log: slog.New(slog.DiscardHandler)}}
	a := newPublisher(cfg, d, m, p.publish, p.done, func() int { return int(p.peers.Load()) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return a
}

// TestAnnounceWaitsForPeers: nothing is lost while the node is alone, and the
// queue is bounded.
func TestAnnounceWaitsForPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakePublish
		a := startAnnouncer(t, &p, 2)
		var busy int
		for i := range 20 {
			if err := a.add(root(string(rune('a' + i)))); status.Of(err) == status.Busy {
				busy++
			} else if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if busy != 20-2-DefaultConfig().Announcers {
			t.Errorf("%d of 20 were refused", busy)
		}
		time.Sleep(time.Hour)
		if p.published() != 0 {
			t.Error("published to nobody")
		}
		p.peers.Store(1)
		time.Sleep(time.Second)
		if p.published() != 20-busy {
			t.Errorf("%d were published", p.published())
		}
	})
}

// TestAnnounceWaitsForTheClock: nothing is published by a clock that is wrong, and
// all that is queued once it is set.
func TestAnnounceWaitsForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakePublish
		var wrong atomic.Bool
		a := startAnnouncer(t, &p, 2)
		a.paused = wrong.Load
		wrong.Store(true)
		p.peers.Store(1)
		for i := range 2 {
			if err := a.add(root(string(rune('a' + i)))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if p.published() != 0 {
			t.Error("published by a wrong clock")
		}
		wrong.Store(false)
		time.Sleep(time.Second)
		if p.published() != 2 {
			t.Errorf("%d were published", p.published())
		}
	})
}

// TestNothingIsSignedByAWrongClock: neither for the announcer, nor for the sweep,
// nor for who asks.
func TestNothingIsSignedByAWrongClock(t *testing.T) {
	s := &signer{deps: Deps{ClockWrong: func() bool { return true }}}
	if _, err := s.current(root("a"), time.Now()); status.Of(err) != status.NotReady {
		t.Errorf("signed: %v", err)
	}
}

// TestAnnounceHandsOver: a bounded number at one time, and each is handed to the
// sweep once it is published.
func TestAnnounceHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fakePublish{takes: time.Minute}
		p.peers.Store(1)
		a := startAnnouncer(t, &p, 40)
		for i := range 40 {
			if err := a.add(root(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5*time.Minute + time.Second)
		if n := 5 * DefaultConfig().Announcers; p.published() != n || p.handedOver() != n {
			t.Errorf("%d published, %d handed over", p.published(), p.handedOver())
		}
		time.Sleep(time.Hour)
		if p.published() != 40 || p.handedOver() != 40 || p.most() != DefaultConfig().Announcers {
			t.Errorf("%d published, %d handed over, %d at one time", p.published(), p.handedOver(), p.most())
		}
		if n := testutil.ToFloat64(a.m.announced.WithLabelValues("ok")); n != 40 {
			t.Errorf("%v are counted", n)
		}
	})
}

// TestAnnounceRetries what failed, within minutes, and gives up in the end.
func TestAnnounceRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakePublish
		p.peers.Store(1)
		p.fail.Store(true)
		a := startAnnouncer(t, &p, 10)
		if err := a.add(root("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		p.fail.Store(false)
		time.Sleep(2 * time.Minute)
		if p.count(root("x")) != 1 {
			t.Errorf("published %d times", p.count(root("x")))
		}
		p.fail.Store(true)
		if err := a.add(root("y")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := testutil.ToFloat64(a.m.announced.WithLabelValues("failed")); n > 5+maxTries {
			t.Errorf("tried %v times", n)
		}
		if len(a.failedRoots()) != 0 {
			t.Error("it never gives up")
		}
	})
}

// TestAnnouncePanics: an announcement that panics is tried again, and its announcer takes the next object.
func TestAnnouncePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakePublish
		p.peers.Store(1)
		p.panics.Store(true)
		a := startAnnouncer(t, &p, 20)
		const objects = 10 // more than there are announcers
		for i := range objects {
			if err := a.add(root(string(rune('a' + i)))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := testutil.ToFloat64(a.m.announced.WithLabelValues("failed")); n != objects {
			t.Errorf("%v of %d failed", n, objects)
		}
		p.panics.Store(false)
		time.Sleep(2 * time.Minute)
		if p.published() != objects {
			t.Errorf("%d of %d were published", p.published(), objects)
		}
	})
}

// TestFailuresAreBounded whatever happens.
func TestFailuresAreBounded(t *testing.T) {
	a := &publisher{failed: map[b3.Root]int{}}
	for i := range 2 * maxFailed {
		a.recordResult(b3.Root{byte(i), byte(i >> 8)}, false)
	}
	if n := len(a.failedRoots()); n != maxFailed {
		t.Errorf("%d are kept", n)
	}
}
