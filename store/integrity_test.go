package store_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/storetest"
)

// openDamage is damage of which nobody knows what was lost.
func openDamage(left int64) meta.Damage {
	return meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: "seg/0000000000000001.seg", Offset: 32,
		Length: left, Left: left, Reason: "the bytes are no record"}
}

// TestDamageStopsEvictions: while damage is open neither a collection nor an
// eviction removes anything, and both say why; when it is accepted they go on.
func TestDamageStopsEvictions(t *testing.T) {
	t.Parallel()
	cfg := tiny()
	cfg.MaxBytes = 1 << 20
	s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
	const size = 60 << 10
	for i := range 8 {
		storetest.Put(t, s, storetest.Bytes(uint64(i), size))
	}
	s.AddDamage(openDamage(0))
	for _, opt := range []gc.Options{{All: true, Fast: true}, {Fast: true}, {All: true, Fast: true, Dry: true}} {
		r, err := s.Collector().Run(t.Context(), opt)
		storetest.Want(t, err, status.Conflict)
		if !strings.Contains(err.Error(), "allium store damage") || r.Open != 1 || !r.Blocked() ||
			r.Classes[gc.Removed].Objects != 0 {
			t.Errorf("%+v says %v and %+v", opt, err, r)
		}
		if r.Classes[gc.Cache].Objects != 8 {
			t.Errorf("what could be evicted is not told: %+v", r.Classes)
		}
	}
	var err error
	refused := 0
	for i := range 20 { // far more than fits
		if _, e := s.PutBytes(t.Context(), storetest.Bytes(uint64(100+i), size), store.PutOptions{}); e != nil {
			refused++
			err = e
		}
	}
	storetest.Want(t, err, status.NoSpace)
	if !strings.Contains(err.Error(), "allium store damage") {
		t.Errorf("the refusal does not say why: %v", err)
	}
	for i := range 8 {
		storetest.Holds(t, s, storetest.Bytes(uint64(i), size))
	}
	testkit.Eventually(t, "the store says that it is full", func() bool {
		s.Collector().Wake()
		return s.Collector().Space().Full
	})
	if why := s.Collector().Space().FullReason; !strings.Contains(why, "allium store damage") {
		t.Errorf("it is full since %q", why)
	}

	if n, err := s.AcceptDamage(t.Context()); len(n) != 1 || err != nil {
		t.Fatalf("accepted %+v, %v", n, err)
	}
	for i := range 20 {
		storetest.Put(t, s, storetest.Bytes(uint64(200+i), size))
	}
	if r, err := s.Collector().Run(t.Context(), gc.Options{All: true, Fast: true}); err != nil ||
		r.Classes[gc.Removed].Objects == 0 {
		t.Errorf("after it was accepted: %+v, %v", r, err)
	}
}

// TestLostPin: what a pin keeps is unknown while the pinned object itself is
// lost, so nothing is removed until it is back or the pin is gone.
func TestLostPin(t *testing.T) {
	t.Parallel()
	for _, recursive := range []bool{true, false} {
		s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
		file := storetest.Put(t, s, storetest.Bytes(1, 3000))
		top := tree(t, s, map[string]b3.Root{"file": file}, nil)
		if err := s.Pin(t.Context(), top, store.PinOptions{Recursive: recursive}); err != nil {
			t.Fatal(err)
		}
		if err := s.Lose(t.Context(), top); err != nil {
			t.Fatal(err)
		}
		r, err := s.Collector().Run(t.Context(), gc.Options{All: true, Fast: true})
		storetest.Want(t, err, status.Conflict)
		if len(r.Damaged) != 1 || !r.Damaged[0].Absent || r.Damaged[0].Node != top ||
			!strings.Contains(err.Error(), "lost") {
			t.Errorf("the collection says %v, %+v", err, r)
		}
		wantHas(t, s, "what the lost directory names", file, true)
		if recursive {
			_, _, err = s.Pinned(t.Context(), file)
			storetest.Want(t, err, status.Conflict)
			storetest.Want(t, s.Delete(t.Context(), file), status.Conflict)
		}
		if err := s.Unpin(t.Context(), top, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Collector().Run(t.Context(), gc.Options{All: true, Fast: true}); err != nil {
			t.Fatal(err)
		}
		wantHas(t, s, "what nothing holds any more", file, false)
	}
}

// TestIntegrity: only damage of unknown extent keeps users from writing, and
// only until it is accepted.
func TestIntegrity(t *testing.T) {
	t.Parallel()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
	s.AddDamage(meta.Damage{Kind: meta.DamageBody, State: meta.DamageOpen, File: "seg/1", Roots: []b3.Root{{1}},
		Reason: "a flipped bit"})
	s.AddDamage(meta.Damage{Kind: meta.DamageLog, State: meta.DamageMended, File: "seg/2", Left: 9,
		Reason: "the debris of a crash"})
	if err := s.UnknownLoss(); err != nil {
		t.Error(err)
	}
	s.AddDamage(openDamage(10))
	err := s.UnknownLoss()
	storetest.Want(t, err, status.NotReady)
	if !strings.Contains(err.Error(), "allium store damage --accept") {
		t.Errorf("it does not say what to do: %v", err)
	}
	storetest.Put(t, s, storetest.Bytes(1, 100)) // a repair, or a fetch
	if _, err := s.AcceptDamage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.UnknownLoss(); err != nil {
		t.Error(err)
	}
}

// TestIndexFailsAgain: an index that fails while the store runs is made anew by
// the next start, each time.
func TestIndexFailsAgain(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	for round := range 3 {
		s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
		for i := range round {
			storetest.Holds(t, s, storetest.Bytes(uint64(i), 100))
		}
		storetest.Put(t, s, storetest.Bytes(uint64(round), 100))
		mended := 0
		for _, d := range s.Damage() {
			if d.Kind != meta.DamageIndex || d.State != meta.DamageMended {
				t.Errorf("round %d: the damage is %+v", round, d)
			}
			mended++
		}
		if mended != round {
			t.Errorf("the index was made anew %d times, and was spoiled %d times", mended, round)
		}
		s.SpoilIndex()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}
