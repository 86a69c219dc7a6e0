package hints

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestClocksApart: what is late by one clock and not by the other is brought once,
// and makes nobody compare at once again; after a while it is asked for again,
// as a clock may have been set right.
func TestClocksApart(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			a, b := newTested(t, fixedIdentity(t, 1)), newTested(t, fixedIdentity(t, 2))
			b.deps.Now = func() time.Time { return time.Now().Add(off) }
			life := 5 * time.Minute // too short by a clock that is ahead
			if off < 0 {
				life = maxLifetime // too long by one that is behind
			}
			x := fixedIdentity(t, 3).announce(t, 1, 1, time.Now().Add(life), root(1))
			if err := a.keep(x, viaGossip, time.Now()); err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{true, false} {
				if differ, err, serr := converse(t, a, b); differ != want || err != nil || serr != nil {
					t.Errorf("%s: comparison %d: %v, %v, %v", name, i, differ, err, serr)
				}
			}
			b.sync.reconsider() // there is room, but it is no less late
			if differ, _, _ := converse(t, a, b); differ {
				t.Errorf("%s: it came again", name)
			}
			time.Sleep(declineLate - time.Second)
			b.deps.Now = func() time.Time { return x.notAfter.Add(-time.Minute) }
			a.deps.Now = b.deps.Now
			if differ, _, _ := converse(t, a, b); differ {
				t.Errorf("%s: it came again soon", name)
			}
			time.Sleep(time.Second)
			if differ, err, serr := converse(t, a, b); !differ || err != nil || serr != nil ||
				len(b.Hints(root(1))) != 1 {
				t.Errorf("%s: the clock is right, and it is not here: %v, %v, %v", name, differ, err, serr)
			}
		})
	}
}

// TestIgnoredProvider: a node does not remember the announcements of an ignored provider, and does not use earlier
// ones. The peer that brings one has done nothing wrong.
func TestIgnoredProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTested(t, fixedIdentity(t, 1)), newTested(t, fixedIdentity(t, 2))
		x := fixedIdentity(t, 3).announce(t, 1, 1, time.Now().Add(5*time.Minute), root(1))
		if err := a.keep(x, viaGossip, time.Now()); err != nil {
			t.Fatal(err)
		}
		ignores := func(p peer.ID) bool { return p == x.provider }
		b.deps.IgnorePeer = ignores
		if _, err, serr := converse(t, a, b); err != nil || serr != nil || len(b.Hints(root(1))) != 0 {
			t.Errorf("a comparison: %v, %v, %d hints", err, serr, len(b.Hints(root(1))))
		}
		if differ, _, _ := converse(t, a, b); differ {
			t.Error("it is asked for again at once")
		}
		if len(a.Hints(root(1))) != 1 {
			t.Fatal("the hint is not there before its provider is ignored")
		}
		a.deps.IgnorePeer = ignores
		if got := a.Hints(root(1)); len(got) != 0 {
			t.Errorf("once its provider is ignored: %v", got)
		}
	})
}
