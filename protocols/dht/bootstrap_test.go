package dht

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// fakeDialer is a network of seeds that are up or down.
type fakeDialer struct {
	start time.Time

	mu    sync.Mutex
	up    map[peer.ID]bool // accepts
	conns map[peer.ID]bool
	dials map[peer.ID][]time.Duration // since start
	order []peer.ID
	lost  func()
}

func newFakeDialer() *fakeDialer {
	return &fakeDialer{start: time.Now(), up: map[peer.ID]bool{}, conns: map[peer.ID]bool{}, dials: map[peer.ID][]time.Duration{}}
}

func (d *fakeDialer) connect(_ context.Context, info peer.AddrInfo) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dials[info.ID] = append(d.dials[info.ID], time.Since(d.start))
	d.order = append(d.order, info.ID)
	if !d.up[info.ID] {
		return errors.New("refused")
	}
	d.conns[info.ID] = true
	return nil
}

func (d *fakeDialer) connected(p peer.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns[p]
}

func (d *fakeDialer) onLost(f func()) func() {
	d.lost = f
	return func() {}
}

func (d *fakeDialer) set(p peer.ID, up bool) {
	d.mu.Lock()
	d.up[p] = up
	lost := d.conns[p] && !up
	if lost {
		d.conns[p] = false
	}
	d.mu.Unlock()
	if lost {
		d.lost()
	}
}

func (d *fakeDialer) dialsOf(p peer.ID) []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.dials[p])
}

func startBootstrap(t *testing.T, d dialer, seeds ...peer.ID) *bootstrapper {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	var infos []peer.AddrInfo
	for _, s := range seeds {
		infos = append(infos, peer.AddrInfo{ID: s})
	}
	b := newBootstrapper("me", infos, d, m, slog.New(slog.DiscardHandler))
	go b.run(t.Context())
	return b
}

// within reports whether got is want ± 20 % and a little for earlier rounds.
func within(got, want time.Duration) bool {
	return got >= want*8/10 && got <= want*12/10
}

// TestBootstrapTiers: a seed that is down is dialled at the tiers of SPEC §5
// and then every five minutes, and never more often.
func TestBootstrapTiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDialer()
		b := startBootstrap(t, d, "a")
		time.Sleep(30 * time.Minute)
		dials := d.dialsOf("a")
		want := append(tiers[:], 5*time.Minute, 5*time.Minute)
		for i, w := range want {
			if got := dials[i+1] - dials[i]; !within(got, w) {
				t.Errorf("dial %d came %s after the one before, want %s ± 20 %%", i+2, got, w)
			}
		}
		if s := b.seeds()[0]; s.Connected || s.Tries != len(dials) || s.LastError == "" || !s.LastSuccess.IsZero() {
			t.Errorf("after %d dials: %+v", len(dials), s)
		}
		d.set("a", true)
		time.Sleep(6 * time.Minute)
		if s := b.seeds()[0]; !s.Connected || s.Tries != 0 || s.LastError != "" || s.LastSuccess.IsZero() {
			t.Errorf("after it came up: %+v", s)
		}
	})
}

// TestBootstrapTriesAll: every seed is dialled in one round, spaced, in an
// order that is not always the same, and ourselves not at all.
func TestBootstrapTriesAll(t *testing.T) {
	seeds := ids(0, 12)
	first := map[peer.ID]bool{}
	for range 12 {
		synctest.Test(t, func(t *testing.T) {
			d := newFakeDialer()
			for _, s := range seeds {
				d.set(s, true)
			}
			startBootstrap(t, d, append(slices.Clone(seeds), "me")...)
			time.Sleep(11 * seedDialSpace * 13 / 10)
			synctest.Wait()
			if len(d.order) != 12 || len(d.dials) != 12 || d.dials["me"] != nil {
				t.Fatalf("dialled %v", d.order)
			}
			for i := 1; i < len(d.order); i++ {
				if gap := d.dials[d.order[i]][0] - d.dials[d.order[i-1]][0]; gap < seedDialSpace*8/10 {
					t.Errorf("two dials are %s apart", gap)
				}
			}
			first[d.order[0]] = true
			time.Sleep(time.Hour)
			synctest.Wait()
			if len(d.order) != 12 {
				t.Errorf("seeds that are connected were dialled again: %d dials", len(d.order))
			}
		})
	}
	if len(first) == 1 {
		t.Error("the order is always the same")
	}
}

// TestBootstrapAfterALoss: the last seed's loss is answered within a second or
// so, other losses at the next round.
func TestBootstrapAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDialer()
		d.set("a", true)
		d.set("b", true)
		startBootstrap(t, d, "a", "b")
		time.Sleep(time.Hour)
		d.set("a", false)
		d.set("a", true)
		time.Sleep(6 * time.Minute)
		if len(d.dialsOf("a")) != 2 {
			t.Errorf("a was dialled %d times", len(d.dialsOf("a")))
		}
		for _, s := range []peer.ID{"a", "b"} {
			d.set(s, false)
			d.set(s, true)
		}
		time.Sleep(2 * time.Second)
		if len(d.dialsOf("a")) != 3 || len(d.dialsOf("b")) != 2 {
			t.Errorf("a and b were dialled %d and %d times", len(d.dialsOf("a")), len(d.dialsOf("b")))
		}
	})
}

// TestBootstrapFlapping: a seed that accepts and hangs up at once is not
// dialled in a loop.
func TestBootstrapFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDialer()
		d.set("a", true)
		startBootstrap(t, d, "a")
		for range 600 { // ten minutes
			time.Sleep(time.Second)
			d.set("a", false)
			d.set("a", true)
		}
		if n := len(d.dialsOf("a")); n < 4 || n > 8 {
			t.Errorf("dialled %d times in ten minutes", n)
		}
	})
}

func TestBootstrapWithoutSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBootstrap(t, newFakeDialer(), "me")
		synctest.Wait()
		if len(b.seeds()) != 0 {
			t.Error("this node is a seed of its own")
		}
	})
}
