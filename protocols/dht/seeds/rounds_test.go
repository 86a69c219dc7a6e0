package seeds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
)

// within reports whether got is want ± 20 %.
func within(got, want time.Duration) bool { return got >= want*8/10 && got <= want*12/10 }

// TestTiers: a seed that is down is dialled at the tiers of SPEC §5 and then
// every five minutes, with jitter and never more often.
func TestTiers(t *testing.T) {
	first := map[time.Duration]bool{}
	for range 4 {
		synctest.Test(t, func(t *testing.T) {
			d, seeds := newFakeDialer(), peers(t, 0, 1)
			b := begin(t, configOf(t, seeds), Deps{Dialer: d, Explain: func(p peer.ID, err error) error {
				return fmt.Errorf("%s in words: %w", p, err)
			}})
			time.Sleep(30 * time.Minute)
			dials := d.of(seeds[0].ID)
			for i, w := range append(tiers[:], 5*time.Minute, 5*time.Minute) {
				if got := dials[i+1] - dials[i]; !within(got, w) {
					t.Errorf("dial %d came %s after the one before, want %s ± 20 %%", i+2, got, w)
				}
			}
			first[dials[1]] = true
			if s := b.Seeds()[0]; s.Connected || s.Tries != len(dials) ||
				!s.LastSuccess.IsZero() || s.Source != FromConfig ||
				!strings.HasPrefix(s.LastError, seeds[0].ID.String()+" in words: ") {
				t.Errorf("after %d dials: %+v", len(dials), s)
			}
			d.set(true, seeds[0].ID)
			time.Sleep(6*time.Minute + time.Second)
			if s := b.Seeds()[0]; !s.Connected || s.Tries != 0 || s.LastError != "" || s.LastSuccess.IsZero() {
				t.Errorf("after it came up: %+v", s)
			}
		})
	}
	if len(first) == 1 {
		t.Error("the waits have no jitter")
	}
}

// TestPace: every seed is dialled once, in an order that is not always the
// same, apart from each other, a few at a time, and ourselves not at all.
func TestPace(t *testing.T) {
	seeds := peers(t, 0, 12)
	first := map[peer.ID]bool{}
	for range 12 {
		synctest.Test(t, func(t *testing.T) {
			d := newFakeDialer()
			d.takes = 3 * time.Second
			d.set(true, idsOf(seeds[6:])...)
			b := begin(t, configOf(t, seeds), Deps{Dialer: d, Self: seeds[11].ID})
			time.Sleep(8 * time.Second) // 11 dials with 6 waits of 3 s, 4 at a time
			dials := d.all()
			if len(b.Seeds()) != 11 || len(dials) < 11 || d.of(seeds[11].ID) != nil || d.peak() != dialParallel {
				t.Fatalf("%d seeds, %d dials, %d at a time", len(b.Seeds()), len(dials), d.peak())
			}
			dialled := map[peer.ID]bool{}
			for i, c := range dials[:11] {
				dialled[c.id] = true
				if i > 0 && c.at-dials[i-1].at < dialSpace*8/10 {
					t.Errorf("two dials are %s apart", c.at-dials[i-1].at)
				}
			}
			if len(dialled) != 11 {
				t.Errorf("%d seeds were dialled in the first round", len(dialled))
			}
			first[dials[0].id] = true
			time.Sleep(time.Hour)
			for _, s := range seeds[6:11] {
				if n := len(d.of(s.ID)); n != 1 {
					t.Errorf("a seed that is connected was dialled %d times", n)
				}
			}
		})
	}
	if len(first) == 1 {
		t.Error("the order is always the same")
	}
}

// TestLoss: the last seed's loss is answered within a second or so, other
// losses at the next round.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ids := newFakeDialer(), idsOf(peers(t, 0, 2))
		d.set(true, ids...)
		begin(t, configOf(t, peers(t, 0, 2)), Deps{Dialer: d})
		time.Sleep(2 * time.Minute) // the next round is at 4 to 6 minutes
		d.set(false, ids[0])
		d.set(true, ids[0])
		time.Sleep(2 * time.Second)
		if n := len(d.of(ids[0])); n != 1 {
			t.Errorf("the first was dialled %d times, with the second still connected", n)
		}
		time.Sleep(4*time.Minute + 3*time.Second) // and the one after it at 8 or later
		if n := len(d.of(ids[0])); n != 2 {
			t.Errorf("the first was dialled %d times", n)
		}
		d.set(false, ids...)
		d.set(true, ids...)
		time.Sleep(2 * time.Second)
		if len(d.of(ids[0])) != 3 || len(d.of(ids[1])) != 2 {
			t.Errorf("they were dialled %d and %d times", len(d.of(ids[0])), len(d.of(ids[1])))
		}
	})
}

// TestFlapping: a seed that accepts and hangs up at once is not dialled in a
// loop.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, seeds := newFakeDialer(), peers(t, 0, 1)
		d.set(true, seeds[0].ID)
		begin(t, configOf(t, seeds), Deps{Dialer: d})
		for range 600 { // ten minutes
			time.Sleep(time.Second)
			d.set(false, seeds[0].ID)
			d.set(true, seeds[0].ID)
		}
		if n := len(d.of(seeds[0].ID)); n < 4 || n > 8 {
			t.Errorf("dialled %d times in ten minutes", n)
		}
	})
}

// TestOneDownOthersUsed: one seed that is down keeps nobody from the others.
func TestOneDownOthersUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ids := newFakeDialer(), idsOf(peers(t, 0, 3))
		d.takes = time.Minute // it does not even refuse
		d.set(true, ids[1:]...)
		reg := prometheus.NewPedanticRegistry()
		b := begin(t, configOf(t, peers(t, 0, 3)), Deps{Env: env.Env{Metrics: reg}, Dialer: d})
		time.Sleep(time.Second)
		if !d.Connected(ids[1]) || !d.Connected(ids[2]) {
			t.Error("the others are not connected after a second")
		}
		time.Sleep(10*time.Minute - time.Second)
		if n := len(d.of(ids[0])); n < 5 || n > 8 {
			t.Errorf("the one that is down was dialled %d times", n)
		}
		if n := len(d.all()) - len(d.of(ids[0])); n != 2 {
			t.Errorf("the others were dialled %d times", n)
		}
		if got := testutil.ToFloat64(b.m.connected); got != 2 {
			t.Errorf("dht_seeds_connected is %v", got)
		}
		ok := testutil.ToFloat64(b.m.dials.WithLabelValues("ok"))
		failed := testutil.ToFloat64(b.m.dials.WithLabelValues("failed"))
		if ok != 2 || failed < 4 {
			t.Errorf("dht_bootstrap_dials_total is %v ok and %v failed", ok, failed)
		}
	})
}

// TestAllDownAndBack: when all seeds are away for hours they are not hammered,
// and when they are back the node is within six minutes.
func TestAllDownAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ids := newFakeDialer(), idsOf(peers(t, 0, 5))
		d.set(true, ids...)
		b := begin(t, configOf(t, peers(t, 0, 5)), Deps{Dialer: d})
		time.Sleep(10 * time.Minute)
		d.set(false, ids...)
		before := len(d.all())
		time.Sleep(2 * time.Hour)
		if n := (len(d.all()) - before) / 5; n < 20 || n > 37 { // 7200 s ÷ (300 s ± 20 %), and the tiers before
			t.Errorf("each was dialled %d times in two hours", n)
		}
		d.set(true, ids...)
		time.Sleep(6*time.Minute + 2*time.Second)
		for _, s := range b.Seeds() {
			if !s.Connected || s.Tries != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestWithoutSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDialer()
		b := begin(t, Config{}, Deps{Dialer: d})
		time.Sleep(time.Hour)
		if len(b.Seeds()) != 0 || len(d.all()) != 0 || b.Manifest() != (ManifestInfo{}) || b.Remembered() != 0 {
			t.Errorf("%v, %v, %v", b.Seeds(), d.all(), b.Manifest())
		}
	})
}

// TestStopsAtOnce: a dial that hangs does not hold up the end, nor does it
// count against the seed.
func TestStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, seeds := newFakeDialer(), peers(t, 0, 3)
		d.takes = time.Hour
		b := begin(t, configOf(t, seeds), Deps{Dialer: d})
		time.Sleep(time.Second)
		start := time.Now()
		b.stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
		if slices.ContainsFunc(b.Seeds(), func(s Info) bool { return s.Tries != 0 }) {
			t.Errorf("%+v", b.Seeds())
		}
	})
}

// TestDialDeadline: a dial that hangs ends after 5 s.
func TestDialDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, seeds := newFakeDialer(), peers(t, 0, 1)
		d.takes = time.Hour
		b := begin(t, configOf(t, seeds), Deps{Dialer: d})
		time.Sleep(dialTimeout + time.Millisecond)
		if s := b.Seeds()[0]; s.Tries != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestMet: a seed that somebody else's dial has reached counts as reached.
func TestMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, st := range map[string]seedState{
			"never reached": {},
			"lost":          {lastSuccess: now.Add(-time.Hour), lastError: "refused", tries: 3, warned: true},
		} {
			st.met()
			if st.lastSuccess != now || st.lastError != "" || st.tries != 0 || st.warned {
				t.Errorf("%s: %+v", name, st)
			}
		}
		st := seedState{lastSuccess: now.Add(-time.Hour)}
		if st.met(); st.lastSuccess != now.Add(-time.Hour) {
			t.Error("a connection that holds is no new success")
		}
	})
}
