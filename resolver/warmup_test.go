package resolver

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/resolver/providers"
)

// TestWarmup: the warm-up waits for a peer, for other lookups and for fetches, and then the
// first requests are answered from the cache.
func TestWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, gone, last := randomBlob(90, 10), randomBlob(91, 10), randomBlob(92, 10)
		var known atomic.Bool
		w := newWorld(t, func(c *Config, d *Deps) {
			c.Warmup = []string{first.root.String(), gone.root.Hex(), last.root.String()}
			d.Connected = known.Load
		})
		w.has([]peer.ID{"a"}, first, last)
		time.Sleep(time.Minute)
		if n := w.finder.count(); n != 0 {
			t.Fatalf("%d lookups without a peer", n)
		}
		busy := randomBlob(93, 10)
		w.finder.mu.Lock()
		w.finder.hang = true
		w.finder.mu.Unlock()
		var other sync.WaitGroup
		other.Go(func() { _, _ = w.Resolve(t.Context(), busy.root, Query{}) })
		defer other.Wait()
		synctest.Wait()
		known.Store(true)
		time.Sleep(w.cfg.Load().Deadline / 2)
		if n := w.finder.count(); n != 1 {
			t.Errorf("%d lookups while another ran", n)
		}
		w.finder.mu.Lock()
		w.finder.hang = false
		w.finder.mu.Unlock()
		slow := randomBlob(94, 20*group)
		w.net.peer("a", slow).before = paced(time.Second)
		w.has([]peer.ID{"a"}, slow)
		other.Go(func() {
			if err := w.fetch(t, slow); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(15 * time.Second)
		if n := w.finder.count(); n != 2 {
			t.Errorf("%d lookups during a fetch", n)
		}
		time.Sleep(9 * time.Second) // the fetch ends after 20 s; less than the TTL since then
		if n := w.finder.count(); n != 5 {
			t.Errorf("%d lookups after the warm-up", n)
		}
		for _, b := range []*blob{first, last} {
			if a, err := w.Resolve(t.Context(), b.root, Query{}); err != nil || a.Source != providers.SourceCache {
				t.Errorf("%+v, %v", a, err)
			}
		}
	})
}
