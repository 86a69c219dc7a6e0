package namestore

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/dht/persist"
	"allium/protocols/name"
	"allium/protocols/status"
)

func versions(records ...name.Signed) (v name.Versions) {
	for _, r := range records {
		v, _ = v.Add(r)
	}
	return v
}

// TestFloors: a record that is older than a verified one is refused, also after a restart.
func TestFloors(t *testing.T) {
	one, two := sign(t, 1, "blog", 1, "one"), sign(t, 1, "blog", 2, "two")
	other := sign(t, 1, "blog", 2, "other")
	f := NewSeen(true)
	check := func(f *Seen, v name.Versions, want status.Outcome) {
		t.Helper()
		if err := f.Raise(v); status.Of(err) != want {
			t.Errorf("%v: %v, want %s", v.Records(), err, want)
		}
	}
	check(f, name.Versions{}, status.OK)
	check(f, versions(one), status.OK)
	check(f, versions(two), status.OK)
	check(f, versions(two, other), status.OK) // the caller sees that they equivocate
	keys, _ := f.TakeChanges()
	values, err := f.Values(keys)
	if err != nil || len(keys) != 1 || len(values) != 1 {
		t.Fatalf("%d keys, %d values, %v", len(keys), len(values), err)
	}
	again := NewSeen(true)
	for key, value := range values {
		if err := again.Restore(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		if err := again.Restore(t.Context(), key, value[1:]); !errors.Is(err, persist.ErrRefused) {
			t.Errorf("a damaged value: %v", err)
		}
	}
	for _, f := range []*Seen{f, again} {
		check(f, versions(one), status.Stale)
		check(f, versions(other), status.Equivocation)
		check(f, versions(two), status.OK)
	}
	if changed, _ := again.TakeChanges(); len(changed) != 0 {
		t.Errorf("%d floors are written again after they were read", len(changed))
	}
	// In RAM alone.
	check(NewSeen(false), versions(one), status.OK)
}

// TestFloorsForget: the least recently used floor is forgotten, on disk too.
func TestFloorsForget(t *testing.T) {
	f := NewSeen(true)
	rec := sign(t, 1, "blog", 1, "one")
	if err := f.Raise(versions(rec)); err != nil {
		t.Fatal(err)
	}
	f.TakeChanges()
	rec.Name.Zone[2]++ // other names than the first
	for i := range MaxFloors {
		rec.Name.Zone[0], rec.Name.Zone[1] = byte(i), byte(i>>8)
		if err := f.Raise(versions(rec)); err != nil {
			t.Fatal(err)
		}
		if i < MaxFloors-10 {
			f.TakeChanges()
		}
	}
	changed, _ := f.TakeChanges()
	values, err := f.Values(changed)
	if err != nil || len(f.Keys()) != MaxFloors || len(values) >= len(changed) {
		t.Errorf("%d floors, %d of %d changes have a value: %v", len(f.Keys()), len(values), len(changed), err)
	}
}

// TestFound: a record is remembered for 80 to 100 % of its TTL and not past its end, its absence for the time that the
// caller says. A record older than one that was seen is refused, also when the newer one was forgotten.
func TestFound(t *testing.T) {
	one, two := sign(t, 1, "blog", 1, "one"), sign(t, 1, "blog", 2, "two")
	other := sign(t, 1, "blog", 2, "other")
	s := NewSeen(true)
	check := func(rec []name.Signed, now time.Time, seq uint64, least, most time.Duration) {
		t.Helper()
		f, err := s.Remember(one.Name, versions(rec...), now, time.Second)
		if got, ok := s.Peek(one.Name); err != nil || !ok || got.Versions.Seq() != seq || got.Until != f.Until {
			t.Errorf("number %d until %s, %t, %v", got.Versions.Seq(), got.Until, ok, err)
		}
		if ttl := f.Until.Sub(now); ttl < least || ttl > most || !f.Serves(now, 0) || f.Serves(f.Until, 0) ||
			!f.Serves(f.Until, 1) {
			t.Errorf("the number %d is remembered for %s", seq, ttl)
		}
	}
	check(nil, at, 0, time.Second, time.Second)
	for range 100 {
		check([]name.Signed{one}, at, 1, name.DefaultTTL*8/10, name.DefaultTTL)
	}
	check([]name.Signed{two}, at, 2, name.DefaultTTL*8/10, name.DefaultTTL)
	check([]name.Signed{one}, at, 2, name.DefaultTTL*8/10, name.DefaultTTL) // never back
	check(nil, at, 2, name.DefaultTTL*8/10, name.DefaultTTL)
	check(nil, two.NotAfter.Add(-time.Second), 2, time.Second, time.Second)
	if changed, _ := s.TakeChanges(); len(changed) != 1 || s.Seq(one.Name) != 2 {
		t.Errorf("%d changes, the highest number is %d", len(changed), s.Seq(one.Name))
	}
	refused := func(rec name.Signed, want status.Outcome) {
		t.Helper()
		before, known := s.Peek(one.Name)
		_, err := s.Remember(one.Name, versions(rec), at, time.Second)
		after, ok := s.Peek(one.Name)
		if status.Of(err) != want || ok != known || after.Until != before.Until ||
			after.Versions.Seq() != before.Versions.Seq() {
			t.Errorf("the number %d: %v, and %d is remembered", rec.Seq, err, after.Versions.Seq())
		}
	}
	s.found.Purge()
	refused(one, status.Stale)
	refused(other, status.Equivocation)
	check(nil, at, 0, time.Second, time.Second)
	refused(one, status.Stale)
	check([]name.Signed{two}, at, 2, name.DefaultTTL*8/10, name.DefaultTTL)
	check([]name.Signed{other}, at, 2, name.DefaultTTL*8/10, name.DefaultTTL) // the caller sees both
	if f, _ := s.Get(one.Name); !f.Versions.Equivocates() {
		t.Error("two values with one number do not equivocate")
	}
	// A lookup elsewhere has raised the floor, so the record that was found is not made fresh again.
	if err := s.Raise(versions(sign(t, 1, "blog", 3, "three"))); err != nil {
		t.Error(err)
	}
	_, err := s.Remember(one.Name, name.Versions{}, at.Add(time.Hour), time.Second)
	if f, _ := s.Get(one.Name); status.Of(err) != status.Stale || f.At != at {
		t.Errorf("looked up at %s, %v", f.At, err)
	}
}

// TestFoundBounds: whatever is remembered, the bytes of it are bounded and counted right, and its names keep their
// highest numbers.
func TestFoundBounds(t *testing.T) {
	rec := sign(t, 1, "blog", 1, "one")
	rapid.Check(t, func(t *rapid.T) {
		const others = MaxFound - 8<<10 // bytes
		s := NewSeen(false)
		s.bytes = others
		highest := map[name.Name]bool{}
		for range rapid.IntRange(1, 100).Draw(t, "names") {
			var v name.Versions
			rec := rec
			rec.Name.Zone[0] = rapid.Byte().Draw(t, "zone")
			if rapid.Bool().Draw(t, "has a record") {
				v = versions(rec)
				highest[rec.Name] = true
			}
			if _, err := s.Remember(rec.Name, v, at, time.Second); err != nil {
				t.Fatal(err)
			}
			size := int64(others)
			for _, f := range s.found.Values() {
				size += f.size()
			}
			if size != s.Bytes() || size > MaxFound {
				t.Fatalf("%d bytes, counted %d", size, s.Bytes())
			}
		}
		for n := range highest {
			if s.Seq(n) != 1 {
				t.Fatalf("the highest number of %s is %d", n, s.Seq(n))
			}
		}
	})
}
