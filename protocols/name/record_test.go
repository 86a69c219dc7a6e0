package name

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

func TestSignAndOpen(t *testing.T) {
	key, zone := newKey(t, 1)
	for _, text := range []string{"", "hello", b3.Sum(nil).String() + "/a", "blog." + zone.String()} {
		want := sample(t, zone, NextSeq(0, at), text)
		s := sign(t, key, want)
		for name, open := range map[string]func() (Signed, error){
			"open":    func() (Signed, error) { return Open(s.Envelope, at) },
			"verify":  func() (Signed, error) { return Verify(s.Envelope) },
			"restore": func() (Signed, error) { return Restore(s.Envelope) },
		} {
			if got, err := open(); err != nil || got.Record != want || !bytes.Equal(got.Envelope, s.Envelope) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// TestLargestRecord: every label and value that is allowed fits into an envelope.
func TestLargestRecord(t *testing.T) {
	key, zone := newKey(t, 1)
	r := sample(t, zone, NextSeq(0, at), strings.Repeat("x", MaxValue))
	r.Name.Label = label(t, strings.Repeat("a", MaxLabel))
	if s := sign(t, key, r); len(s.Envelope) > MaxEnvelope {
		t.Errorf("%d bytes", len(s.Envelope))
	}
}

// sealed returns an envelope around any payload.
func sealed(t testing.TB, k record.Kind, key crypto.PrivKey, payload []byte) []byte {
	t.Helper()
	raw, err := k.Seal(key, payload)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestOpenRefuses(t *testing.T) {
	key, zone := newKey(t, 1)
	other, _ := newKey(t, 2)
	rsa, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(at.UnixMilli())
	good := wireRecord{
		Zone: []byte(zone.ID()), Label: "blog", Seq: now, Value: "hello",
		NotAfter: uint64(at.Add(time.Hour).Unix()), TTL: 60,
	}
	envelope := func(change func(*wireRecord)) []byte {
		w := good
		change(&w)
		payload, err := canonical.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		return sealed(t, kind, key, payload)
	}
	payload, err := canonical.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	forged := sealed(t, kind, key, payload)
	forged[len(forged)-1] ^= 1
	unix := func(d time.Duration) uint64 { return uint64(at.Add(d).Unix()) }
	for _, tc := range []struct {
		name string
		env  []byte
		want Refusal // empty: accepted
	}{
		{"good", sealed(t, kind, key, payload), ""},
		{"last second", envelope(func(w *wireRecord) { w.NotAfter = unix(0) }), ""},
		{"longest life", envelope(func(w *wireRecord) { w.NotAfter = unix(MaxLife + ClockSkew) }), ""},
		{"furthest seq", envelope(func(w *wireRecord) { w.Seq = now + 120_000 }), ""},
		{"shortest ttl", envelope(func(w *wireRecord) { w.TTL = 5 }), ""},
		{"longest ttl", envelope(func(w *wireRecord) { w.TTL = 86400 }), ""},
		{"withdrawn", envelope(func(w *wireRecord) { w.Value = "" }), ""},

		{"long", make([]byte, MaxEnvelope+1), Oversize},
		{"nothing", nil, Unsigned},
		{"bare payload", payload, Unsigned},
		{"another type", sealed(t, record.KindOf("zonemap"), key, payload), WrongType},
		{"forged", forged, BadSignature},
		{"trailing", sealed(t, kind, key, append(bytes.Clone(payload), 0)), Malformed},
		{"no record", sealed(t, kind, key, []byte{0xa0}), Malformed},
		{"never ends", envelope(func(w *wireRecord) { w.NotAfter = 1 << 63 }), Malformed},
		{"no zone", envelope(func(w *wireRecord) { w.Zone = nil }), BadZone},
		{"long zone", envelope(func(w *wireRecord) { w.Zone = append(w.Zone[:38:38], 0) }), BadZone},
		{"another's", sealed(t, kind, other, payload), ForeignKey},
		{"RSA key", sealed(t, kind, rsa, payload), ForeignKey},
		{"no label", envelope(func(w *wireRecord) { w.Label = "" }), BadLabel},
		{"label in capitals", envelope(func(w *wireRecord) { w.Label = "Blog" }), BadLabel},
		{"decomposed label", envelope(func(w *wireRecord) { w.Label = "u\u0308" }), BadLabel},
		{"mixed label", envelope(func(w *wireRecord) { w.Label = "pаypal" }), BadLabel},
		{"long label", envelope(func(w *wireRecord) { w.Label = strings.Repeat("a", 64) }), BadLabel},
		{"dots", envelope(func(w *wireRecord) { w.Label = ".." }), BadLabel},
		{"long value", envelope(func(w *wireRecord) { w.Value = strings.Repeat("x", MaxValue+1) }), BadValue},
		{"wrong address", envelope(func(w *wireRecord) { w.Value = "b3:abc" }), BadValue},
		{"no ttl", envelope(func(w *wireRecord) { w.TTL = 0 }), BadTTL},
		{"short ttl", envelope(func(w *wireRecord) { w.TTL = 4 }), BadTTL},
		{"long ttl", envelope(func(w *wireRecord) { w.TTL = 86401 }), BadTTL},
		{"huge ttl", envelope(func(w *wireRecord) { w.TTL = 1 << 63 }), BadTTL},
		{"future", envelope(func(w *wireRecord) { w.Seq = now + 120_001 }), FutureSeq},
		{"huge seq", envelope(func(w *wireRecord) { w.Seq = 1<<64 - 1 }), FutureSeq},
		{"expired", envelope(func(w *wireRecord) { w.NotAfter = unix(-time.Second) }), Expired},
		{"long life", envelope(func(w *wireRecord) { w.NotAfter = unix(MaxLife + ClockSkew + time.Second) }),
			LongLived},
	} {
		got, err := Open(tc.env, at)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		var refused *RecordError
		if !errors.As(err, &refused) || refused.Refusal != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
		if (got.Envelope != nil) != (tc.want == Expired) {
			t.Errorf("%s: returned %+v", tc.name, got)
		}
	}
}

// TestRefusals: the list has every refusal once, with an outcome that is no success.
func TestRefusals(t *testing.T) {
	seen := map[Refusal]bool{}
	for _, r := range Refusals() {
		if seen[r.Refusal] || r.Doc == "" || status.Of(refuse(r.Refusal, nil)) != r.Outcome || r.Outcome == status.OK {
			t.Errorf("%+v", r)
		}
		seen[r.Refusal] = true
	}
	if len(seen) != 13 {
		t.Errorf("%d refusals", len(seen))
	}
}

// TestSignRefuses: nothing is signed that nobody would accept.
func TestSignRefuses(t *testing.T) {
	key, zone := newKey(t, 1)
	other, _ := newKey(t, 2)
	for name, tc := range map[string]struct {
		key    crypto.PrivKey
		change func(*Record)
		want   Refusal
	}{
		"another's key":  {other, func(*Record) {}, ForeignKey},
		"half a second":  {key, func(r *Record) { r.NotAfter = r.NotAfter.Add(time.Second / 2) }, Malformed},
		"half a ttl":     {key, func(r *Record) { r.TTL += time.Second / 2 }, Malformed},
		"before 1970":    {key, func(r *Record) { r.NotAfter = time.Unix(-1, 0) }, Malformed},
		"no label":       {key, func(r *Record) { r.Name.Label = Label{} }, BadLabel},
		"no ttl":         {key, func(r *Record) { r.TTL = 0 }, BadTTL},
		"seq in an hour": {key, func(r *Record) { r.Seq += 3_600_000 }, FutureSeq},
		"expired":        {key, func(r *Record) { r.NotAfter = at.Add(-time.Hour) }, Expired},
		"for two months": {key, func(r *Record) { r.NotAfter = at.AddDate(0, 2, 0) }, LongLived},
	} {
		r := sample(t, zone, NextSeq(0, at), "hello")
		tc.change(&r)
		_, err := Sign(tc.key, r, at)
		var refused *RecordError
		if !errors.As(err, &refused) || refused.Refusal != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

func TestNextSeq(t *testing.T) {
	now := uint64(at.UnixMilli())
	for last, want := range map[uint64]uint64{0: now, now - 1: now, now: now + 1, now + 5: now + 6} {
		if got := NextSeq(last, at); got != want {
			t.Errorf("after %d: %d, want %d", last, got, want)
		}
	}
	if got := NextSeq(0, time.Unix(-5, 0)); got != 1 {
		t.Errorf("before 1970: %d", got)
	}
}

// TestVersions: the same records in any order, grouping and number give the same result; the
// highest seq is in it, and an equivocation is seen.
func TestVersions(t *testing.T) {
	key, zone := newKey(t, 1)
	var pool []Signed
	now := uint64(at.UnixMilli())
	for seq := range uint64(3) {
		for _, text := range []string{"a", "b", "c"} {
			for _, life := range []time.Duration{time.Hour, 2 * time.Hour} {
				r := sample(t, zone, now+seq, text)
				r.NotAfter = at.Add(life)
				pool = append(pool, sign(t, key, r))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(pool), 1, 12).Draw(t, "records")
		var v, left, right Versions
		values, top := map[string]bool{}, uint64(0)
		for i, r := range drawn {
			v, _ = v.Add(r)
			if i%2 == 0 {
				left, _ = left.Add(r)
			} else {
				right, _ = right.Add(r)
			}
			if r.Seq > top {
				top, values = r.Seq, map[string]bool{}
			}
			if r.Seq == top {
				values[r.Value.String()] = true
			}
		}
		if v.Seq() != top || v.Equivocates() != (len(values) > 1) {
			t.Fatalf("seq %d of %d, equivocates %v with %d values", v.Seq(), top, v.Equivocates(), len(values))
		}
		var shuffled Versions
		for _, r := range rapid.Permutation(drawn).Draw(t, "order") {
			shuffled, _ = shuffled.Add(r)
		}
		for name, other := range map[string]Versions{
			"shuffled": shuffled, "merged": left.Merge(right), "merged back": right.Merge(left), "again": v.Merge(v),
		} {
			if !same(v, other) {
				t.Errorf("%s: %v, not %v", name, other.records, v.records)
			}
		}
	})
}

func same(a, b Versions) bool {
	if len(a.records) != len(b.records) {
		return false
	}
	for i := range a.records {
		if a.records[i].Record != b.records[i].Record || !bytes.Equal(a.records[i].Envelope, b.records[i].Envelope) {
			return false
		}
	}
	return true
}

func TestRelations(t *testing.T) {
	key, zone := newKey(t, 1)
	now := uint64(at.UnixMilli())
	signed := func(seq uint64, text string) Signed { return sign(t, key, sample(t, zone, seq, text)) }
	var v Versions
	if _, ok := v.Current(); ok || v.Seq() != 0 || v.Equivocates() {
		t.Errorf("%+v", v)
	}
	for i, step := range []struct {
		add     Signed
		want    Relation
		current string
	}{
		{signed(now, "b"), Newer, "b"},
		{signed(now, "b"), Same, "b"},
		{signed(now-1, "a"), Older, "b"},
		{signed(now, "c"), Equivocation, "b"},
		{signed(now, "c"), Same, "b"},
		{signed(now, "a"), Equivocation, "a"},
		{signed(now, "c"), Equivocation, "a"}, // it made way for a
		{signed(now+1, ""), Newer, ""},
	} {
		var rel Relation
		v, rel = v.Add(step.add)
		if got, _ := v.Current(); rel != step.want || got.Value.String() != step.current {
			t.Errorf("step %d: %d and %q", i, rel, got.Value)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	key, zone := newKey(b, 1)
	s := sign(b, key, sample(b, zone, NextSeq(0, at), b3.Sum(nil).String()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(s.Envelope, at); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestore(b *testing.B) {
	key, zone := newKey(b, 1)
	s := sign(b, key, sample(b, zone, NextSeq(0, at), b3.Sum(nil).String()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Restore(s.Envelope); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseLabel(b *testing.B) {
	for _, text := range []string{"blog", "東京タワー"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseLabel(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
