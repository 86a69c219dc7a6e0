package namestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"pgregory.net/rapid"

	"allium/protocols/dht/persist"
	"allium/protocols/name"
)

var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// newKey returns the key of zone number n.
func newKey(t testing.TB, n int) (crypto.PrivKey, name.Zone) {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(fmt.Appendf(nil, "%032d", n)))
	if err != nil {
		t.Fatal(err)
	}
	zone, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	return key, zone
}

// sign returns a record of zone number n.
func sign(t testing.TB, n int, label string, seq uint64, value string) name.Signed {
	t.Helper()
	key, zone := newKey(t, n)
	l, err := name.ParseLabel(label)
	if err != nil {
		t.Fatal(err)
	}
	v, err := name.ParseValue(value)
	if err != nil {
		t.Fatal(err)
	}
	r, err := name.Sign(key, name.Record{
		Name: name.Name{Label: l, Zone: zone}, Seq: seq, Value: v,
		NotAfter: at.Add(name.DefaultLife), TTL: name.DefaultTTL,
	}, at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func always() bool { return true }

func newStore(cfg Config) *Store {
	cfg.PassOn = passOn
	return NewStore(cfg, always)
}

const passOn = time.Hour

func keyOf(r name.Signed) Key { return r.Name.Digest() }

func TestPut(t *testing.T) {
	s := newStore(DefaultConfig())
	one, other, two := sign(t, 1, "blog", 1, "one"), sign(t, 1, "blog", 1, "other"), sign(t, 1, "blog", 2, "two")
	for i, step := range []struct {
		put  name.Signed
		err  error
		held int
	}{
		{one, nil, 1},
		{one, nil, 1},
		{other, ErrEquivocation, 2},
		{one, ErrEquivocation, 2},
		{two, nil, 1},
		{one, ErrStale, 1},
		{two, nil, 1},
	} {
		if err := s.Put(step.put, "8.8.0.0/16", at); !errors.Is(err, step.err) {
			t.Errorf("step %d: %v, want %v", i, err, step.err)
		}
		if got := s.Get(keyOf(one), at); len(got) != step.held {
			t.Errorf("step %d: %d records, want %d", i, len(got), step.held)
		}
	}
	if got := s.Get(keyOf(one), at.Add(name.DefaultLife+time.Second)); len(got) != 0 {
		t.Errorf("%d expired records are served", len(got))
	}
	s.Sweep(at.Add(name.DefaultLife + time.Second))
	if n, size := s.Len(); n != 0 || size != 0 {
		t.Errorf("%d names with %d bytes are left", n, size)
	}
}

// TestFreeZones: zones cost nothing. However many records one network puts, those of others stay,
// and find a place in a full store.
func TestFreeZones(t *testing.T) {
	cfg := Config{Records: 50, Bytes: 1 << 20, PerZone: 10}
	s := newStore(cfg)
	before, own := sign(t, 1, "before", 1, "x"), sign(t, 2, "own", 1, "x")
	if err := errors.Join(s.Put(before, "8.8.0.0/16", at), s.Put(own, "", at)); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		_ = s.Put(sign(t, 1000+i, "spam", 1, "x"), "9.9.0.0/16", at)
	}
	after := sign(t, 3, "after", 1, "x")
	if err := s.Put(after, "7.7.0.0/16", at); err != nil {
		t.Errorf("a new record of another network: %v", err)
	}
	for _, r := range []name.Signed{before, own, after} {
		if len(s.Get(keyOf(r), at)) != 1 {
			t.Errorf("%s is not held", r.Name)
		}
	}
	if err := s.Put(sign(t, 5000, "spam", 1, "x"), "9.9.0.0/16", at); !errors.Is(err, ErrFull) {
		t.Errorf("one more of the largest group: %v", err)
	}
	// A zone has its own bound, whatever network its records come from.
	s = newStore(cfg)
	for i := range cfg.PerZone {
		if err := s.Put(sign(t, 1, fmt.Sprint("n", i), 1, "x"), fmt.Sprint(i), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(sign(t, 1, "more", 1, "x"), "6.6.0.0/16", at); !errors.Is(err, ErrFull) {
		t.Errorf("one more of the zone: %v", err)
	}
	if err := s.Put(sign(t, 1, "n0", 2, "y"), "6.6.0.0/16", at); err != nil {
		t.Errorf("a newer record of a full zone: %v", err)
	}
}

// TestWrongClock: while the clock may be wrong, a full store drops no record for having expired.
func TestWrongClock(t *testing.T) {
	right := false
	s := NewStore(Config{Records: 1, Bytes: 1 << 20, PerZone: 10, PassOn: passOn}, func() bool { return right })
	old, later := sign(t, 1, "old", 1, "x"), at.Add(8*24*time.Hour)
	if err := s.Put(old, "a", at); err != nil {
		t.Fatal(err)
	}
	s.Sweep(later)
	for _, right = range []bool{false, true} {
		err := s.Put(sign(t, 2, "new", 1, "x"), "a", later)
		if took := err == nil; took != right {
			t.Errorf("with a right clock %t: %v", right, err)
		}
	}
}

// TestDue: a record is passed on once in one to two intervals, and later if it arrived meanwhile.
func TestDue(t *testing.T) {
	s := newStore(DefaultConfig())
	r := sign(t, 1, "blog", 1, "x")
	if err := s.Put(r, "a", at); err != nil {
		t.Fatal(err)
	}
	if due := s.Due(10, at.Add(passOn-time.Second)); len(due) != 0 {
		t.Error("due before the interval has passed")
	}
	if due := s.Due(10, at.Add(2*passOn)); len(due) != 1 {
		t.Error("not due after two intervals")
	}
	if due := s.Due(10, at.Add(2*passOn)); len(due) != 0 {
		t.Error("due twice")
	}
	now := at
	for range 20 { // another holder passes it on in time
		now = now.Add(passOn - time.Second)
		if err := s.Put(r, "b", now); err != nil {
			t.Fatal(err)
		}
		if due := s.Due(10, now); len(due) != 0 {
			t.Fatal("due although it has just arrived")
		}
	}
	if due := s.Due(10, at.Add(8*24*time.Hour)); len(due) != 0 {
		t.Error("an expired record is passed on")
	}
}

// TestBounds: whatever arrives, the store keeps its bounds, and its parts agree.
func TestBounds(t *testing.T) {
	records := map[[3]int]name.Signed{}
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			Records: rapid.IntRange(1, 8).Draw(rt, "records"), Bytes: rapid.IntRange(800, 8000).Draw(rt, "bytes"),
			PerZone: rapid.IntRange(1, 4).Draw(rt, "per zone"),
		}
		s, now := newStore(cfg), at
		s.changes = persist.NewChanges[Key]()
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			which := [3]int{
				rapid.IntRange(1, 4).Draw(rt, "zone"), rapid.IntRange(1, 4).Draw(rt, "label"),
				rapid.IntRange(0, 5).Draw(rt, "seq and value"),
			}
			r, ok := records[which]
			if !ok {
				r = sign(t, which[0], fmt.Sprint("l", which[1]), uint64(1+which[2]/2), fmt.Sprint("v", which[2]%2))
				records[which] = r
			}
			before := s.Get(keyOf(r), now)
			err := s.Put(r, rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "group"), now)
			after := s.Get(keyOf(r), now)
			if len(before) > 0 && (len(after) == 0 || after[0].Seq < before[0].Seq) {
				rt.Fatalf("a put took the name back from %d: %v", before[0].Seq, err)
			}
			if rapid.IntRange(0, 9).Draw(rt, "pass on") == 0 {
				now = now.Add(passOn)
				s.Due(3, now)
			}
			checkStore(rt, s, cfg)
		}
	})
}

func checkStore(t *rapid.T, s *Store, cfg Config) {
	size, zones, groups := 0, map[name.Zone]int{}, map[string]int{}
	for _, e := range s.held {
		size += e.size()
		zones[e.zone()]++
		groups[e.group.name] += e.size()
	}
	for z, n := range zones {
		if s.zones[z] != n {
			t.Fatalf("a zone counts %d of %d records", s.zones[z], n)
		}
	}
	for g, n := range groups {
		if s.groups[g].bytes != n {
			t.Fatalf("group %q counts %d of %d bytes", g, s.groups[g].bytes, n)
		}
	}
	if size != s.size || size > cfg.Bytes || len(s.held) > cfg.Records {
		t.Fatalf("%d names, %d bytes, counted %d", len(s.held), size, s.size)
	}
	if len(s.due) != len(s.held) || len(s.zones) != len(zones) || len(s.groups) != len(groups) {
		t.Fatalf("%d due of %d; %d zones of %d; %d groups of %d",
			len(s.due), len(s.held), len(s.zones), len(zones), len(s.groups), len(groups))
	}
}

// verify is what the service does with an envelope from the disk.
func verify(_ context.Context, envelope []byte) (name.Signed, error) { return name.Open(envelope, at) }

func newTable() Table {
	return NewTable(newStore(DefaultConfig()), verify, func() time.Time { return at })
}

// TestRestore: what a store holds comes back, and nothing that does not verify.
func TestRestore(t *testing.T) {
	from, to := newTable(), newTable()
	for _, r := range []name.Signed{
		sign(t, 1, "blog", 1, "one"), sign(t, 1, "blog", 1, "other"), sign(t, 2, "x", 7, ""),
	} {
		_ = from.Put(r, "8.8.0.0/16", at)
	}
	keys, dropped := from.TakeChanges()
	values, err := from.Values(keys)
	if err != nil || len(keys) != 2 || dropped != 0 || len(values) != 2 {
		t.Fatalf("%d keys, %d values, %v", len(keys), len(values), err)
	}
	for key, value := range values {
		path := from.Path(key).String()
		if back, err := to.ParsePath(path); err != nil || back != key {
			t.Errorf("%s: %v", path, err)
		}
		if err := to.Restore(t.Context(), key, value); err != nil {
			t.Error(err)
		}
		if a, b := from.Get(key, at), to.Get(key, at); len(a) != len(b) || a[0].Record != b[0].Record {
			t.Errorf("%v became %v", a, b)
		}
		for bad, value := range map[string][]byte{
			"nothing": nil, "cut": value[:len(value)-1], "a bit flipped": flip(value, len(value)/2),
		} {
			if err := newTable().Restore(t.Context(), key, value); !errors.Is(err, persist.ErrRefused) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		if err := newTable().Restore(t.Context(), Key{1}, value); !errors.Is(err, persist.ErrRefused) {
			t.Errorf("another key: %v", err)
		}
	}
	if again, _ := to.TakeChanges(); len(again) > 1 { // the pair was replaced once
		t.Errorf("%d records are written again after they were read", len(again))
	}
	for _, path := range []string{"", "/", "/00", "//", "/" + string(make([]byte, 64)), "x"} {
		if key, err := to.ParsePath(path); err == nil {
			t.Errorf("%q is the key %x", path, key)
		}
	}
}

func flip(p []byte, at int) []byte {
	p = bytes.Clone(p)
	p[at] ^= 1
	return p
}

// FuzzRestore: nothing on disk becomes a record but what verifies.
func FuzzRestore(f *testing.F) {
	t := newTable()
	r := sign(f, 1, "blog", 1, "one")
	_ = t.Put(r, "a", at)
	values, err := t.Values([]Key{keyOf(r)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(values[keyOf(r)])
	f.Add([]byte{})
	f.Fuzz(func(tt *testing.T, value []byte) {
		t := newTable()
		if t.Restore(tt.Context(), keyOf(r), value) != nil {
			return
		}
		for _, got := range t.Get(keyOf(r), at) {
			if _, err := name.Open(got.Envelope, at); err != nil {
				tt.Errorf("an unverified record: %v", err)
			}
		}
	})
}

func BenchmarkPut(b *testing.B) {
	const n = 1000
	records := make([]name.Signed, n)
	for i := range records {
		records[i] = sign(b, i, "blog", 1, "b3:0000000000000000000000000000000000000000000000000000000000000000")
	}
	b.ReportAllocs()
	s := newStore(DefaultConfig())
	for i := 0; b.Loop(); i++ {
		if err := s.Put(records[i%n], "8.8.0.0/16", at); err != nil {
			b.Fatal(err)
		}
	}
}
