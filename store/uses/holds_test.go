package uses

import (
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

func rootOf(n uint64) b3.Root { return b3.Sum(binary.LittleEndian.AppendUint64(nil, n)) }

func newTracker(write func(map[b3.Root]meta.Second) error) *Tracker {
	return New(Deps{Clock: meta.NewClock(time.Now), Write: write, Noted: func(b3.Root) {}})
}

// TestHolds: a hold keeps what is used while it lasts, and what is used while a
// younger one does, and nothing once it has ended.
func TestHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newTracker(nil)
		added := meta.SecondOf(time.Now())
		time.Sleep(time.Minute)
		use := func(n uint64) { u.Note(rootOf(n), added) }
		want := func(kept ...uint64) {
			t.Helper()
			for n := range uint64(6) {
				is := u.Held(rootOf(n), max(added, u.UsedAt(rootOf(n))))
				if should := slices.Contains(kept, n); is != should {
					t.Errorf("object %d is held: %t", n, is)
				}
			}
		}
		use(0)
		want()
		first := u.Hold()
		use(1)
		second := u.Hold()
		use(2)
		third := u.Hold()
		use(3)
		want(1, 2, 3)
		second() // the first goes on
		want(1, 2, 3)
		use(4)
		want(1, 2, 3, 4)
		first()
		first()
		want(3, 4)
		last := u.Hold()
		third()
		want()
		if !u.Holding() {
			t.Error("the last hold is not seen")
		}
		last()
		if u.Holding() || len(u.holds.list) != 0 || u.holds.bytes != 0 {
			t.Errorf("left: %+v", u.holds)
		}
		if len(u.unwritten) != 0 {
			t.Errorf("%d uses wait to be written, of objects that came a minute before", len(u.unwritten))
		}
	})
}

// TestHoldsAreSmall: many short holds within a long one cost as much as what is
// used under them, and a filter holds few that it was not shown.
func TestHoldsAreSmall(t *testing.T) {
	t.Parallel()
	var hs holds
	long := hs.begin(1)
	const short, each = 500, 300
	for i := range uint64(short) {
		h := hs.begin(2)
		for j := range uint64(each) {
			hs.add(rootOf(i*each + j))
		}
		hs.end(h)
	}
	if len(hs.list) != 1 || hs.bytes > 1<<20 {
		t.Errorf("%d holds with %d bytes for %d uses", len(hs.list), hs.bytes, short*each)
	}
	wrong := 0
	for i := range uint64(short * each) {
		if !hs.has(rootOf(i)) {
			t.Fatalf("use %d is forgotten", i)
		}
		if hs.has(rootOf(1<<40 + i)) {
			wrong++
		}
	}
	if wrong > short*each/10 {
		t.Errorf("%d of %d objects are held that were not used", wrong, short*each)
	}
	hs.end(long)
	if hs.bytes != 0 {
		t.Errorf("%d bytes are left", hs.bytes)
	}
}

// TestHoldsWithoutRoom: where the filters have no room, everything is held until
// the hold ends.
func TestHoldsWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newTracker(nil)
		added := meta.SecondOf(time.Now())
		time.Sleep(time.Minute)
		release := u.Hold()
		u.holds.bytes = maxFilterBytes
		u.Note(rootOf(1), added)
		if !u.Held(rootOf(1), added) || !u.Held(rootOf(2), added) {
			t.Error("an object is given up that a hold may have been shown")
		}
		release()
		time.Sleep(time.Minute)
		defer u.Hold()()
		if u.Held(rootOf(1), added) {
			t.Error("the next hold keeps it too")
		}
	})
}

// TestNote: a use is noted an hour after the one that is known, and not sooner.
func TestNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		written := 0
		u := newTracker(func(m map[b3.Root]meta.Second) error {
			written += len(m)
			return nil
		})
		added := meta.SecondOf(time.Now())
		flush := func() {
			t.Helper()
			if err := u.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 * 60 {
			u.Note(rootOf(1), added)
			flush()
			time.Sleep(time.Minute)
		}
		if written != 2 {
			t.Errorf("%d uses were written in three hours of one a minute, want 2", written)
		}
		for n := range uint64(maxUnwritten) {
			u.Note(rootOf(2+n), added)
		}
		if u.Note(rootOf(1<<40), added) || u.Dropped() != 1 {
			t.Errorf("a use was taken beyond the bound; %d were dropped", u.Dropped())
		}
		flush()
		if !u.Note(rootOf(1<<40), added) {
			t.Error("no use is taken after a flush")
		}
	})
}
