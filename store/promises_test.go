package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/storetest"
)

// lostOf is what a walk over the promises tells.
func lostOf(t testing.TB, s *store.Store) (all []gc.Lost) {
	t.Helper()
	if err := s.Collector().FindLost(t.Context(), gc.FindLostOptions{Fast: true}, func(l gc.Lost) error {
		all = append(all, l)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPromises: whatever a pin leads to and is absent or damaged is told once,
// with the way to it, and nothing else is.
func TestPromises(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	put := func(seed uint64, n int) b3.Root { return storetest.Put(t, s, storetest.Bytes(seed, n)) }
	small, large, rotten, free := put(1, 3000), put(2, 3*b3.GroupSize), put(3, 5*b3.GroupSize), put(4, 50)
	inner := tree(t, s, map[string]b3.Root{"large": large, "small": small}, nil)
	top := tree(t, s, map[string]b3.Root{"again": small, "rotten": rotten}, map[string]b3.Root{"inner": inner})
	lone := put(5, 70)
	shallow := tree(t, s, map[string]b3.Root{"free": free}, nil)
	for root, recursive := range map[b3.Root]bool{top: true, lone: false, shallow: false} {
		if err := s.Pin(t.Context(), root, store.PinOptions{Recursive: recursive}); err != nil {
			t.Fatal(err)
		}
	}
	if got := lostOf(t, s); len(got) != 0 {
		t.Fatalf("nothing is lost, and it tells %+v", got)
	}
	for _, root := range []b3.Root{small, lone, free} {
		if err := s.Lose(t.Context(), root); err != nil {
			t.Fatal(err)
		}
	}
	name := rotten.Hex()
	flipAfter(t, dir+"/obj/"+name[:2], string(storetest.Bytes(3, 5*b3.GroupSize)[:40]))
	storetest.Want(t, s.Verify(t.Context(), rotten), status.Corrupt)
	type found struct {
		path               string
		corrupt, directory bool
	}
	check := func(want map[b3.Root]found) {
		t.Helper()
		got := lostOf(t, s)
		if len(got) != len(want) {
			t.Errorf("%d are told, want %d: %+v", len(got), len(want), got)
		}
		for _, l := range got {
			if w, ok := want[l.Root]; !ok || w != (found{l.Path, l.Corrupt, l.Directory}) {
				t.Errorf("it tells %+v, want %+v", l, w)
			}
		}
	}
	check(map[b3.Root]found{small: {path: "again"}, lone: {}, rotten: {path: "rotten", corrupt: true}})
	// What is below a lost directory is not known.
	names, err := storetest.Get(t, s, inner)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Lose(t.Context(), inner); err != nil {
		t.Fatal(err)
	}
	if err := s.Lose(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	check(map[b3.Root]found{small: {path: "again"}, lone: {}, rotten: {path: "rotten", corrupt: true},
		inner: {path: "inner", directory: true}})
	// A directory that comes back meanwhile is followed.
	var paths []string
	err = s.Collector().FindLost(t.Context(), gc.FindLostOptions{Fast: true}, func(l gc.Lost) error {
		paths = append(paths, l.Path)
		if l.Root != inner {
			return nil
		}
		_, err := s.PutBytes(t.Context(), names, store.PutOptions{Expect: inner})
		return err
	})
	slices.Sort(paths)
	if want := []string{"", "again", "inner", "inner/large", "rotten"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("it tells %q, want %q, %v", paths, want, err)
	}
	enough := errors.New("enough")
	if err := s.Collector().FindLost(t.Context(), gc.FindLostOptions{},
		func(gc.Lost) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the error of a call-back is lost: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestSettleDamage: damage ends when what it names is back, or as much as it
// lost of which nobody knew whose it was.
func TestSettleDamage(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	s, _ := storetest.Start(t, tiny(), store.Deps{Env: env.Env{Metrics: reg}, FS: vfs.NewMem()})
	a, b, c := storetest.Bytes(1, 1000), storetest.Bytes(2, 2000), storetest.Bytes(3, 3*b3.GroupSize)
	const header = store.RecordHeaderSize
	s.AddDamage(meta.Damage{Kind: meta.DamageBody, State: meta.DamageOpen, File: "seg/1",
		Roots: []b3.Root{b3.Sum(a), b3.Sum(b)}, Reason: "r"})
	s.AddDamage(openDamage(header + 1000 + header + 12 + 5))
	s.AddDamage(meta.Damage{Kind: meta.DamageNote, State: meta.DamageOpen, File: "part/x", Reason: "nobody knows what"})
	state := func(open, unknown int, left int64) {
		t.Helper()
		if o, u := s.OpenDamage(); o != open || u != unknown || s.Damage()[1].Left != left {
			t.Fatalf("%d are open, %d unknown; want %d, %d and %d bytes: %+v", o, u, open, unknown, left, s.Damage())
		}
	}
	restore := func(p []byte) {
		t.Helper()
		if err := s.Restored(t.Context(), storetest.Put(t, s, p), true); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(header + 1000 + header + 12 + 5)
	if err := s.Restored(t.Context(), b3.Sum(a), true); err != nil { // it is not
		t.Fatal(err)
	}
	state(3, 1, total)
	restore(a)
	state(3, 1, total)
	restore(b) // both that the first names
	state(2, 1, total)
	// The object was damaged, so its record is there.
	if err := s.Restored(t.Context(), storetest.Put(t, s, storetest.Bytes(6, 10)), false); err != nil {
		t.Fatal(err)
	}
	state(2, 1, total)
	restore(c)
	state(2, 1, total-header-12)
	restore(storetest.Bytes(4, 1000))
	state(2, 1, 5)
	restore(storetest.Bytes(5, 100)) // more than is left
	state(1, 0, 0)
	if n, err := s.SettleDamage(t.Context(), true); n != 0 || err != nil {
		t.Fatalf("%d were ended, %v", n, err)
	}
	for name, want := range map[string]float64{"store_recovery_repaired_total": 2, "store_recovery_open": 1,
		"store_recovery_unknown": 0} {
		if got, err := testutil.GatherAndCount(reg, name); err != nil || got != 1 {
			t.Errorf("%s: %d, %v", name, got, err)
		}
		if got := summed(t, reg, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := summed(t, reg, "store_recovery_damage_total"); n != 3 {
		t.Errorf("%v are counted", n)
	}
}

// summed is the sum of a metric over its labels.
func summed(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// TestSettleTruncated: an entry that may name only the first of its objects ends
// when nothing that is promised is lost either.
func TestSettleTruncated(t *testing.T) {
	t.Parallel()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
	var roots []b3.Root
	for i := range 20 {
		roots = append(roots, storetest.Put(t, s, storetest.Bytes(uint64(i), 100)))
	}
	s.AddDamage(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: "seg/1", Roots: roots, Reason: "r"})
	if n, err := s.SettleDamage(t.Context(), false); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err := s.SettleDamage(t.Context(), true); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
}
