package dht

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestPersistWrongClock: records on disk that have expired, or end too late, by a
// clock that is not known to be right stay on disk. Once it is, they are restored
// within seconds, and what has expired by it is deleted.
func TestPersistWrongClock(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": 25 * time.Hour, "behind": -25 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				me, d := newIdentity(t), inMemory()
				stored, w := newPersisted(t, d, 100)
				for i := range 10 {
					if err := stored.put(me.own(t, root(fmt.Sprint(i)), 1, time.Now().Add(20*time.Hour)),
						time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				if err := stored.put(me.own(t, root("short"), 1, time.Now().Add(time.Minute)), time.Now()); err != nil {
					t.Fatal(err)
				}
				w.Flush(t.Context())

				// A restart with a clock that is wrong.
				right := false
				again, verify, deps := newProviderStore(20, 100, 100), testVerifier(), persistDeps(t)
				deps.MayExpire = func() bool { return right }
				again.mayExpire = deps.MayExpire
				w2 := newPersister(d, again, verify, deps)
				verify.now = func() time.Time {
					if right {
						return time.Now()
					}
					return time.Now().Add(skew)
				}
				seconds := func(n int) {
					for range n {
						w2.Scan(t.Context())
						w2.Flush(t.Context())
						time.Sleep(time.Second)
					}
				}
				seconds(3 * 3600) // hourly scans too
				if n := len(entries(t, d)); n != 11 || again.len() != 0 {
					t.Errorf("by a wrong clock %d of 11 records are on disk, %d in RAM", n, again.len())
				}
				right = true
				seconds(10)
				if n := len(entries(t, d)); n != 10 || again.len() != 10 {
					t.Errorf("by a clock that was set right %d of 10 records are on disk, %d in RAM", n, again.len())
				}
				seconds(2 * 3600)
				if n := len(entries(t, d)); n != 10 || again.len() != 10 {
					t.Errorf("hours later %d of 10 records are on disk, %d in RAM", n, again.len())
				}
			})
		})
	}
}

// TestExpiredMakesRoomByARightClockOnly: a record that comes to a full key, or a
// full store, pushes out none for having expired while the clock may be wrong.
func TestExpiredMakesRoomByARightClockOnly(t *testing.T) {
	for name, c := range map[string]struct{ perKey, total int }{"key": {2, 100}, "store": {100, 2}} {
		t.Run(name, func(t *testing.T) {
			right := false
			p := newProviderStore(c.perKey, 100, c.total)
			p.mayExpire = func() bool { return right }
			begin := time.Now()
			for _, id := range []string{"a", "b"} {
				rec := plain(peer.ID(id), root("x"), 1, begin.Add(time.Minute))
				rec.group = id
				if err := p.put(rec, begin); err != nil {
					t.Fatal(err)
				}
			}
			late := plain("c", root("x"), 1, begin.Add(2*time.Hour))
			late.group = "a"
			for _, right = range []bool{false, true} {
				err := p.put(late, begin.Add(time.Hour))
				if took := err == nil; took != right {
					t.Errorf("clock right %t: %v", right, err)
				}
			}
			if got := contents(p); len(got) != 1 {
				t.Errorf("%d records are left, want the new one", len(got))
			}
		})
	}
}
