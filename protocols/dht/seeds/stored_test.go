package seeds

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"
)

// TestComesBackWithoutSeeds: a node that was in the network finds it again
// after a restart when its seed is away, and when it has none.
func TestComesBackWithoutSeeds(t *testing.T) {
	for name, seeds := range map[string]int{"seed is away": 1, "no seed": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, all, store := newFakeDialer(), peers(t, 0, 41), newStore()
				seed, table := all[:1], all[1:]
				cfg := configOf(t, seed[:seeds])
				deps := Deps{Dialer: d, Datastore: store, Peers: func() []peer.AddrInfo { return table }}
				b := begin(t, cfg, deps)
				time.Sleep(time.Second)
				b.stop() // and not after ten minutes: the end of Run stores too

				d = newFakeDialer()
				deps.Dialer, deps.Peers = d, func() []peer.AddrInfo { return nil }
				b = begin(t, cfg, deps)
				if b.Remembered() != 40 {
					t.Fatalf("%d peers are remembered", b.Remembered())
				}
				time.Sleep(2100 * time.Millisecond) // 9 dials
				first := slices.DeleteFunc(d.all(),
					func(c dial) bool { return c.id == seed[0].ID || c.at > 2100*time.Millisecond })
				tried := map[peer.ID]bool{}
				for i, c := range first {
					tried[c.id] = true
					if i > 0 && c.at-first[i-1].at < dialSpace*8/10 {
						t.Errorf("two dials are %s apart", c.at-first[i-1].at)
					}
				}
				if len(tried) != maxFallback || len(first) != maxFallback {
					t.Errorf("%d dials of %d peers", len(first), len(tried))
				}
				if n := testutil.ToFloat64(b.m.fallback.WithLabelValues("failed")); n != maxFallback {
					t.Errorf("dht_bootstrap_fallback_dials_total is %v", n)
				}
				time.Sleep(10 * time.Second) // the tiers hold for them too
				if n := len(d.all()) - len(d.of(seed[0].ID)); n < 2*maxFallback {
					t.Errorf("%d dials in 12 seconds", n)
				}
				d.set(true, idsOf(table)...)
				time.Sleep(aRound + 3*time.Second)
				dials := len(d.all()) - len(d.of(seed[0].ID))
				time.Sleep(time.Hour) // connected: no more of them
				if n := len(d.all()) - len(d.of(seed[0].ID)); n != dials {
					t.Errorf("%d dials, then %d", dials, n)
				}
				for _, k := range table { // all lost: at once again
					d.set(false, k.ID)
				}
				before := len(d.all())
				time.Sleep(3 * time.Second)
				if len(d.all()) == before {
					t.Error("nobody is dialled after the last peer was lost")
				}
			})
		})
	}
}

// TestSeedsBeforeRemembered: where a seed answers, remembered peers are left
// alone.
func TestSeedsBeforeRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := newFakeDialer(), peers(t, 0, 10)
		d.set(true, all[0].ID)
		b := begin(t, configOf(t, all[:2]), Deps{Dialer: d, Peers: func() []peer.AddrInfo { return all }})
		time.Sleep(time.Hour)
		if b.Remembered() != 8 || len(d.of(all[0].ID)) != 1 || len(d.all()) != 1+len(d.of(all[1].ID)) {
			t.Errorf("%d remembered, %v", b.Remembered(), d.all())
		}
	})
}

// TestExpiredSeedIsNoFallback: that a peer is remembered does not get around
// its manifest's end.
func TestExpiredSeedIsNoFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all, store := newFakeDialer(), peers(t, 0, 2), newStore()
		b := begin(t, Config{}, Deps{Dialer: d, Datastore: store, Peers: func() []peer.AddrInfo { return all }})
		b.stop()
		f := &file{text: sign(t, manifestOf(1, -time.Hour, all[:1]))}
		b = begin(t, withManifest(t, Config{}), Deps{Dialer: d, Manifest: f.read, Datastore: store})
		time.Sleep(time.Minute)
		if b.Remembered() != 2 || len(d.of(all[0].ID)) != 0 || len(d.of(all[1].ID)) < 2 {
			t.Errorf("%d remembered, %v", b.Remembered(), d.all())
		}
	})
}

// TestTriesOutliveAProcess: so does the last success.
func TestTriesOutliveAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all, store := newFakeDialer(), peers(t, 0, 2), newStore()
		d.set(true, all[0].ID)
		f := &file{text: sign(t, manifestOf(1, 24*time.Hour, all[1:]))}
		cfg := withManifest(t, configOf(t, all[:1]))
		b := begin(t, cfg, Deps{Dialer: d, Manifest: f.read, Datastore: store})
		time.Sleep(10 * time.Minute)
		b.stop()
		before := b.Seeds()

		d2 := newFakeDialer()
		d2.takes = time.Hour
		b = begin(t, cfg, Deps{Dialer: d2, Manifest: f.read, Datastore: store})
		time.Sleep(time.Second)
		after := b.Seeds()
		if len(after) != 2 || !after[0].LastSuccess.Equal(before[0].LastSuccess.Truncate(time.Second)) ||
			after[1].Tries != before[1].Tries ||
			after[1].Tries < 5 {
			t.Errorf("%+v, then %+v", before, after)
		}
	})
}

// counting is a datastore that counts writes, and fails when told.
type counting struct {
	datastore.Datastore
	writes atomic.Int32
	err    error
}

func (c *counting) Put(ctx context.Context, k datastore.Key, v []byte) error {
	c.writes.Add(1)
	if c.err != nil {
		return c.err
	}
	return c.Datastore.Put(ctx, k, v)
}

// TestWritesWhatChanged: peers once an hour, as long as they are the same.
func TestWritesWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := newFakeDialer(), peers(t, 0, 10)
		d.set(true, all[0].ID)
		store := &counting{Datastore: newStore()}
		b := begin(
			t,
			configOf(t, all[:1]),
			Deps{Dialer: d, Datastore: store, Peers: func() []peer.AddrInfo { return all[1:] }},
		)
		time.Sleep(7 * time.Minute)
		if n := store.writes.Load(); n != 1 { // the seed's success
			t.Errorf("%d writes before the first save", n)
		}
		time.Sleep(5*time.Minute + time.Second)
		if n := store.writes.Load(); n != 2 {
			t.Errorf("%d writes after the first save", n)
		}
		time.Sleep(6 * time.Hour)
		if n := store.writes.Load(); n < 6 || n > 9 {
			t.Errorf("%d writes in six hours", n)
		}
		b.stop()
	})
}

// TestCannotWrite: the node goes on.
func TestCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := newFakeDialer(), peers(t, 0, 1)
		d.set(true, all[0].ID)
		store := &counting{Datastore: newStore(), err: errors.New("disk")}
		b := begin(t, configOf(t, all), Deps{Dialer: d, Datastore: store})
		time.Sleep(time.Hour)
		if !d.Connected(all[0].ID) || testutil.ToFloat64(b.m.storage.WithLabelValues("write")) < 2 {
			t.Error("not connected, or not counted")
		}
	})
}

// TestCorruptStore: content that is wrong is left out, counted, and written
// over.
func TestCorruptStore(t *testing.T) {
	good, err := encodeKnown(merge(nil, peers(t, 0, 3), nil, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	for name, junk := range map[string][]byte{
		"junk": []byte("junk"), "empty": {}, "long": make([]byte, maxStored+1),
		"cut": good[:len(good)-1], "more": append(
			bytes.Clone(good), 0,
		), "a map": {0xa0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, all, store := newFakeDialer(), peers(t, 0, 2), newStore()
				d.set(true, all[0].ID)
				for _, k := range []datastore.Key{markKey, triesKey, knownKey} {
					if err := store.Put(t.Context(), k, junk); err != nil {
						t.Fatal(err)
					}
				}
				f := &file{text: sign(t, manifestOf(1, time.Hour, all[:1]))}
				deps := Deps{Dialer: d, Manifest: f.read, Datastore: store,
					Peers: func() []peer.AddrInfo { return all[1:] }}
				b := begin(t, withManifest(t, Config{}), deps)
				if n := testutil.ToFloat64(b.m.storage.WithLabelValues("read")); n != 3 {
					t.Errorf("%v errors are counted", n)
				}
				time.Sleep(time.Second)
				b.stop()
				if !d.Connected(all[0].ID) || b.Manifest().Err != "" {
					t.Errorf("not connected: %+v", b.Manifest())
				}
				b = begin(t, withManifest(t, Config{}), deps)
				if n := testutil.ToFloat64(b.m.storage.WithLabelValues("read")); n != 0 || b.Remembered() != 1 {
					t.Errorf("after a restart %v errors, %d peers", n, b.Remembered())
				}
			})
		})
	}
}

// TestOldPeersAreForgotten: those not seen for seven days, and those seen in
// the future.
func TestOldPeersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, store := peers(t, 0, 4), newStore()
		slices.SortFunc(all, func(a, b peer.AddrInfo) int { return strings.Compare(string(a.ID), string(b.ID)) })
		var ks []known
		for i, age := range []time.Duration{time.Hour, knownLife - time.Hour, knownLife, -2 * clockSkew} {
			ks = append(ks, known{all[i], time.Now().Add(-age)})
		}
		p, err := encodeKnown(ks)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Put(t.Context(), knownKey, p); err != nil {
			t.Fatal(err)
		}
		d := newFakeDialer()
		b := begin(t, Config{}, Deps{Dialer: d, Datastore: store})
		time.Sleep(2*time.Hour + aRound)
		if b.Remembered() != 2 || len(d.of(all[2].ID))+len(d.of(all[3].ID)) != 0 || len(d.of(all[0].ID)) < 10 {
			t.Errorf("%d peers, %v", b.Remembered(), d.all())
		}
		late := slices.DeleteFunc(d.of(all[1].ID), func(at time.Duration) bool { return at < time.Hour })
		if len(d.of(all[1].ID)) == 0 || len(late) != 0 {
			t.Errorf("the one that ran out was dialled at %v", late)
		}
	})
}

// TestMergeProperty says what is remembered, whatever was and is there.
func TestMergeProperty(t *testing.T) {
	pool := peers(t, 0, 150)
	rapid.Check(t, func(t *rapid.T) {
		some := func(name string) []peer.AddrInfo {
			return rapid.SliceOfN(rapid.SampledFrom(pool), 0, 90).Draw(t, name)
		}
		skip := map[peer.ID]bool{}
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pool), 0, 5).Draw(t, "skipped") {
			skip[p.ID] = true
		}
		old := merge(nil, some("before"), nil,
			now.Add(-time.Duration(rapid.IntRange(0, 10*24).Draw(t, "age"))*time.Hour))
		table := some("table")
		got := merge(old, table, skip, now)

		in := map[peer.ID]bool{}
		for i, k := range got {
			in[k.ID] = true
			if skip[k.ID] || !k.fresh(now) || len(k.Addrs) == 0 || i > 0 && got[i-1].ID >= k.ID {
				t.Fatalf("%v at %d", k, i)
			}
		}
		if len(got) > maxKnown {
			t.Fatalf("%d peers", len(got))
		}
		for _, p := range table {
			if !skip[p.ID] && !in[p.ID] && len(got) < maxKnown {
				t.Fatalf("%s of the table is missing", p.ID)
			}
		}
		for _, k := range old {
			if !skip[k.ID] && k.fresh(now) && !in[k.ID] && len(got) < maxKnown {
				t.Fatalf("%s was forgotten", k.ID)
			}
		}
		p, err := encodeKnown(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeKnown(p); err != nil || len(p) > maxStored || len(again) != len(got) ||
			len(got) > 0 && !reflect.DeepEqual(idsOfKnown(again), idsOfKnown(got)) {
			t.Fatalf("%v comes back as %v, %v", got, again, err)
		}
	})
}

func idsOfKnown(ks []known) (ids []peer.ID) {
	for _, k := range ks {
		ids = append(ids, k.ID)
	}
	return ids
}

// FuzzStored: whatever is in the datastore is refused, or taken within bounds.
func FuzzStored(f *testing.F) {
	_, id := identity(f, 1)
	at := time.Unix(1_750_000_000, 0)
	for _, v := range []any{
		wireMark{7, []byte(id), make([]byte, 32)},
		[]wireTries{{[]byte(id), 1_700_000_000, 3}},
		[]wireKnown{{[]byte(id), 1_700_000_000, addrBytes(peers(f, 0, 1)[0].Addrs)}},
	} {
		p, err := canonical.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if k, err := decodeMark(p); err == nil {
			if again, err := encodeMark(k); err != nil || !bytes.Equal(again, p) {
				t.Fatalf("a mark: %x, %v", again, err)
			}
		}
		if tries, err := decodeTries(p, at); err == nil {
			for id, st := range tries {
				if !wellFormed(id) || st.tries < 0 || st.lastSuccess.After(at) {
					t.Fatalf("%s: %+v", id, st)
				}
			}
		}
		if ks, err := decodeKnown(p); err == nil {
			if again, err := encodeKnown(ks); err != nil || !bytes.Equal(again, p) || len(ks) > maxKnown {
				t.Fatalf("peers: %x, %v", again, err)
			}
		}
	})
}
