package sweep

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestEveryRootReachesItsClosest: from nothing, 500 roots are soon at exactly
// their 20 closest of 100 peers, with far fewer lookups than roots.
func TestEveryRootReachesItsClosest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(100, 500)
		s := w.start(t, nil)
		defer s.stop()
		rest(10 * time.Minute)
		for r := range w.list() {
			got, want := w.puts[r], w.closest(string(r.Multihash()), 20)
			for _, p := range want {
				if got[p] == 0 {
					t.Fatalf("%s is not at one of its closest", r)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%s is at %d peers", r, len(got))
			}
		}
		_, acks := w.published()
		t.Logf("%d lookups, %d PUTs for 500 roots", w.lookups, acks)
		if w.lookups > 100 {
			t.Errorf("%d lookups for 500 roots", w.lookups)
		}
		if got := s.Lag(); got != 0 {
			t.Errorf("the lag is %s", got)
		}
		if st, err := s.running().lib.Load().Stats(t.Context()); err != nil || st.Connectivity.Status != "online" ||
			st.Schedule.Keys != 500 || st.Schedule.Regions == 0 || st.Schedule.NextReprovideAt.IsZero() ||
			st.Queues.PendingRegionReprovides != 0 {
			t.Errorf("stats: %+v, %v", st, err)
		}
	})
}

// TestSmallNetworks: a node that starts alone begins within a minute after the
// first peer is there, however few they are.
func TestSmallNetworks(t *testing.T) {
	for _, peers := range []int{1, 2, 3, 19, 21, 50} {
		for _, roots := range []int{1, 2, 3, 40} {
			t.Run(fmt.Sprint(peers, roots), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(0, roots)
					s := w.start(t, nil)
					defer s.stop()
					rest(17 * time.Minute)
					if got := s.Lag(); got < 16*time.Minute {
						t.Errorf("alone, the lag is %s", got)
					}
					w.grow(peers)
					rest(61*time.Second + 30*time.Second) // and half a minute to publish
					if got, acks := w.published(); got != roots || acks < roots*min(peers, 20) {
						t.Errorf("%d of %d roots published, %d PUTs", got, roots, acks)
					}
					if got := s.Lag(); got != 0 {
						t.Errorf("the lag is %s", got)
					}
				})
			})
		}
	}
}

// TestBeginsWithinSeconds: when the first peer comes soon after the start, so
// do the records.
func TestBeginsWithinSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 5)
		s := w.start(t, nil)
		defer s.stop()
		rest(3 * time.Second)
		w.grow(1)
		rest(8 * time.Second)
		if got, _ := w.published(); got != 5 {
			t.Errorf("%d of 5 roots published", got)
		}
	})
}

// TestResume: a restart goes on with the cycle; only what is due is published.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("TestNobodyIsForgotten has the same goroutines")
	}
	bubble(t, func(t *testing.T) {
		w, d := newWorld(300, 1000), memory()
		s := w.start(t, d)
		rest(30 * time.Minute)
		s.stop()
		all, acks := w.published()
		if all != 1000 {
			t.Fatalf("%d roots published", all)
		}
		t.Logf("the start: %d PUTs, %d lookups", acks, w.lookups)

		rest(time.Hour)
		w.forget()
		s = w.start(t, d)
		rest(10 * time.Minute)
		again, _ := w.published()
		t.Logf("after a restart: %d roots, %d lookups in 10 minutes", again, w.lookups)
		if again > 200 { // one region of some ten may have its turn
			t.Errorf("%d roots published again", again)
		}
		s.stop()

		// Half a cycle off, in which regions had their turn: the library takes them
		// for fresh until the next one, after up to 18 h. They are published when
		// they are due.
		rest(6 * time.Hour)
		s = w.start(t, d)
		rest(13 * time.Hour)
		if got := w.gap; got > pace.Interval+pace.MaxDelay+healAfter+healEvery+5*time.Minute {
			t.Errorf("a root was left for %s", got)
		}
		if n := s.log.count("republishing is late"); n != 0 {
			t.Errorf("%d warnings", n)
		}
		s.stop()

		// A day off: all is late, and is caught up with.
		rest(24 * time.Hour)
		w.forget()
		s = w.start(t, d)
		defer s.stop()
		if got := s.Lag(); got < 11*time.Hour || got > 24*time.Hour {
			t.Errorf("after a day off the lag is %s", got)
		}
		rest(30 * time.Minute)
		if again, _ := w.published(); again != 1000 {
			t.Errorf("after a day off %d roots are published", again)
		}
		if got := s.Lag(); got != 0 {
			t.Errorf("caught up, the lag is %s", got)
		}
		if s.log.count("republishing is late") != 1 || s.log.count("has caught up") != 1 {
			t.Errorf("log:\n%s", s.log.buf.String())
		}
	})
}

// TestLagWhileDown: without the network the lag grows, one warning tells it,
// and all is caught up with; a second time likewise.
func TestLagWhileDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(60, 50)
		s := w.start(t, memory())
		defer s.stop()
		rest(14 * time.Hour)
		for episode := 1; episode <= 2; episode++ {
			if got := s.Lag(); got != 0 {
				t.Fatalf("the lag is %s", got)
			}
			w.set(func() { w.down = true })
			rest(24 * time.Hour)
			if got := s.Lag(); got < 10*time.Hour || got > 24*time.Hour {
				t.Errorf("after a day without network the lag is %s", got)
			}
			if n := s.log.count("republishing is late"); n != episode {
				t.Errorf("%d warnings in episode %d", n, episode)
			}
			w.set(func() { w.down = false })
			w.forget()
			rest(20 * time.Minute)
			if got, _ := w.published(); got != 50 {
				t.Errorf("%d of 50 roots published after the network was back", got)
			}
		}
		if n := s.log.count("has caught up"); n != 2 {
			t.Errorf("%d lines that tell it", n)
		}
	})
}

// TestNobodyIsForgotten: over days no root is left longer than an interval, the
// delay allowed and what the repair takes; in networks in which most regions
// have one root, and in one that grows.
func TestNobodyIsForgotten(t *testing.T) {
	worlds := []struct{ peers, roots, grown int }{
		{40, 3, 40}, {300, 10, 300}, {1000, 30, 1000}, {1000, 300, 1000}, {50, 100, 1500}, {1500, 60, 1500},
	}
	if testing.Short() {
		worlds = worlds[:1] // larger ones have the same goroutines
	}
	for _, tc := range worlds {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(tc.peers, tc.roots)
				s := w.start(t, nil)
				defer s.stop()
				rest(20 * time.Hour)
				w.grow(tc.grown)
				rest(100 * time.Hour)
				if got := w.gap; got > pace.Interval+pace.MaxDelay+healAfter+healEvery+5*time.Minute {
					t.Errorf("a root was left for %s", got)
				}
				for r, last := range w.last {
					if time.Since(last) > pace.Interval+pace.MaxDelay+healAfter+healEvery {
						t.Errorf("%s was published %s ago", r, time.Since(last))
					}
				}
				if n := s.log.count("republishing is late"); n != 0 {
					t.Errorf("%d warnings", n)
				}
				_, acks := w.published()
				t.Logf("the longest time between two: %s; %d PUTs, %d lookups in 10 cycles", w.gap, acks, w.lookups)
			})
		})
	}
}

// TestAdd: what somebody else has published is scheduled and not published now.
func TestAdd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, d := newWorld(100, 0), memory()
		s := w.start(t, d)
		rest(5 * time.Minute)
		fresh := make([]b3.Root, 50)
		for i := range fresh {
			fresh[i] = object(i)
			w.set(func() { w.roots[fresh[i]] = true })
		}
		if err := s.Add(t.Context(), fresh...); err != nil {
			t.Fatal(err)
		}
		rest(3 * time.Minute)
		if got, _ := w.published(); got > 10 { // one region may just be due
			t.Errorf("%d roots published at once", got)
		}
		if got := s.Lag(); got != 0 {
			t.Errorf("the lag is %s", got)
		}
		rest(pace.Interval + 10*time.Minute)
		if got, _ := w.published(); got != 50 {
			t.Errorf("%d of 50 roots published in a cycle", got)
		}
		s.stop()
		if err := s.Add(t.Context(), fresh...); status.Of(err) != status.NotReady {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestListing: what is unpinned drops out within the hour, what was pinned is
// published without being added, and an unchanged listing writes nothing.
func TestListing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(100, 30)
		s := w.start(t, memory())
		defer s.stop()
		rest(61 * time.Minute)
		if w.listed != 3 { // two at the start, one that changes nothing
			t.Errorf("listed %d times", w.listed)
		}
		w.set(func() {
			clear(w.roots)
			w.roots[object(5)] = true
			for i := range 10 {
				w.roots[object(1000+i)] = true
			}
		})
		rest(2 * time.Hour)
		if st, err := s.running().lib.Load().Stats(t.Context()); err != nil || st.Schedule.Keys != 11 {
			t.Errorf("%+v, %v", st, err)
		}
		w.forget()
		rest(pace.Interval + pace.MaxDelay)
		if got, _ := w.published(); got != 11 {
			t.Errorf("%d roots published", got)
		}
		if got := s.Lag(); got != 0 {
			t.Errorf("the lag is %s", got)
		}
	})
}

// TestNobodyTakesIt: the library takes a region for done when its peers were
// reached; the lag tells a root that none of them took.
func TestNobodyTakesIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(60, 10)
		w.refuse = func(_ peer.ID, r b3.Root) bool { return r == object(3) }
		s := w.start(t, nil)
		defer s.stop()
		rest(90 * time.Minute)
		if got := s.Lag(); got < 89*time.Minute {
			t.Errorf("the lag is %s", got)
		}
		if n := s.log.count("republishing is late"); n != 1 {
			t.Errorf("%d warnings", n)
		}
		w.set(func() { w.refuse = nil })
		rest(25 * time.Minute)
		if got := s.Lag(); got != 0 {
			t.Errorf("the lag is %s", got)
		}
	})
}

// TestNoAddress: without an address nothing is published and nothing is
// forgotten.
func TestNoAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(30, 10)
		addrs := w.addrs
		w.addrs = nil
		s := w.start(t, nil)
		defer s.stop()
		rest(time.Hour)
		if got, _ := w.published(); got != 0 {
			t.Errorf("%d roots published without an address", got)
		}
		w.set(func() { w.addrs = addrs })
		rest(90 * time.Second)
		if got, _ := w.published(); got != 10 {
			t.Errorf("%d roots published", got)
		}
	})
}

// silent answers nothing until the call ends.
type silent struct{}

func (silent) GetClosestPeers(ctx context.Context, _ string) ([]peer.ID, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestEndIsPrompt: calls in flight end with Run; start's stop measures it.
func TestEndIsPrompt(t *testing.T) {
	hang := func(ctx context.Context, _ peer.ID, _ b3.Root) error { <-ctx.Done(); return ctx.Err() }
	for name, deps := range map[string]Deps{"lookup": {Router: silent{}}, "put": {Put: hang}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(50, 500)
				s := w.startWith(t, pace, deps)
				rest(5 * time.Second)
				s.stop()
			})
		})
	}
	t.Run("listing", func(t *testing.T) {
		bubble(t, func(t *testing.T) { newWorld(50, 5000).start(t, memory()).stop() })
	})
}

// TestOneWorker: both kinds of work get done by a single worker.
func TestOneWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(50, 100)
		cfg := pace
		cfg.Workers, cfg.K = 1, 4
		s := w.startWith(t, cfg, Deps{})
		defer s.stop()
		rest(10 * time.Minute)
		if got, acks := w.published(); got != 100 || acks != 400 { // what was published lately is not published again
			t.Errorf("%d roots, %d PUTs", got, acks)
		}
		w.forget()
		rest(12 * time.Hour)
		if got, _ := w.published(); got != 100 {
			t.Errorf("%d roots in the second cycle", got)
		}
	})
}
