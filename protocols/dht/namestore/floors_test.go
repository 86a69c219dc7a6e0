package namestore

import (
	"errors"
	"testing"

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

// TestFloors: what was verified once is the least that is taken, also after a restart.
func TestFloors(t *testing.T) {
	one, two := sign(t, 1, "blog", 1, "one"), sign(t, 1, "blog", 2, "two")
	other := sign(t, 1, "blog", 2, "other")
	f := NewFloors(true)
	check := func(f *Floors, v name.Versions, want status.Outcome) {
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
	again := NewFloors(true)
	for key, value := range values {
		if err := again.Restore(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		if err := again.Restore(t.Context(), key, value[1:]); !errors.Is(err, persist.ErrRefused) {
			t.Errorf("a damaged value: %v", err)
		}
	}
	for _, f := range []*Floors{f, again} {
		check(f, versions(one), status.Stale)
		check(f, versions(other), status.Equivocation)
		check(f, versions(two), status.OK)
	}
	if changed, _ := again.TakeChanges(); len(changed) != 0 {
		t.Errorf("%d floors are written again after they were read", len(changed))
	}
	// In RAM alone.
	check(NewFloors(false), versions(one), status.OK)
}

// TestFloorsForget: the least recently used floor is forgotten, on disk too.
func TestFloorsForget(t *testing.T) {
	f := NewFloors(true)
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
