package capability

import (
	"encoding/base64"
	"runtime"
	"strings"
	"testing"
	"time"

	"allium/protocols/status"
)

// FuzzToken: whatever comes in as a token, Verify, Inspect and Attenuate agree on whether
// it is one, none panics, and none that the ring did not mint is let in.
func FuzzToken(f *testing.F) {
	r, err := ParseRing([]byte(ringHead + "1\n1 2026-01-01T00:00:00Z " + strings.Repeat("A", 43) + "\n"))
	if err != nil {
		f.Fatal(err)
	}
	v := NewVerifier(self, func() time.Time { return start }, nil)
	v.Set(r, Revocations{})
	good := forge(f, r, goodID(), "", inAnHour, "op in put")
	f.Add(raw(f, good))
	f.Add(raw(f, forge(f, r, goodID(), "x", inAnHour)))
	f.Add(raw(f, forge(f, r, goodID(), "", times(33, "bytes <= %d")...)))
	f.Add([]byte{2, 2, 29, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		s := base64.RawURLEncoding.EncodeToString(p)
		_, verr := v.Verify(s, put())
		info, ierr := Inspect(s)
		more, aerr := Attenuate(s, Caveat{kind: KindOp, text: "put"})
		if bad := RefusalOf(verr) == string(Malformed); bad != (ierr != nil) || bad && aerr == nil {
			t.Fatalf("Verify %v, Inspect %v, Attenuate %v", verr, ierr, aerr)
		}
		if o := status.Of(verr); verr != nil && o != status.Unauthenticated && o != status.Forbidden &&
			o != status.RateLimit {
			t.Fatalf("%v is %s", verr, o)
		}
		if ierr != nil {
			return
		}
		tok, err := decode(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := encode(&tok.m); err != nil || again != s {
			t.Fatalf("%s was read and is written as %s, %v", s, again, err)
		}
		if again, err := Inspect(more); aerr == nil &&
			(err != nil || len(again.Caveats) != len(info.Caveats)+1 || again.ID != info.ID) {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}

// FuzzCaveat: a caveat that is read is written in a form that is read the same.
func FuzzCaveat(f *testing.F) {
	for _, s := range []string{"op in get,put", "obj ^= b3:0af", "name ^= docs.", "method in GET", "bytes <= 1.5GiB",
		"rate <= 20", inAnHour, "aud = 12D3KooW", "label = my photos", "op in", "x = y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCaveat(s)
		if err != nil {
			if status.Of(err) != status.BadRequest || len(err.Error()) > 1024 {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := ParseCaveat(c.String())
		if err != nil || again != c || again.String() != c.String() {
			t.Fatalf("%q is written as %q and then %q, %v", s, c, again, err)
		}
	})
}

// FuzzFiles: the same for the files.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(ringHead + "1\n1 2026-01-01T00:00:00Z " + strings.Repeat("A", 43) + "\n"))
	f.Add([]byte(revokedHead +
		"1\nid 00112233445566778899aabbccddeeff 2026-01-01T00:00:00Z\n" +
		"branch 00112233445566778899aabbccddeeff forever\nkey 4 forever\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if r, err := ParseRing(p); err == nil {
			if again, err := ParseRing(r.Text()); err != nil || string(again.Text()) != string(r.Text()) {
				t.Fatalf("%v", err)
			}
		} else if status.Of(err) != status.Corrupt {
			t.Fatal(err)
		}
		if r, err := ParseRevocations(p); err == nil {
			if again, err := ParseRevocations(r.Text()); err != nil || string(again.Text()) != string(r.Text()) {
				t.Fatalf("%v", err)
			}
		} else if status.Of(err) != status.Corrupt {
			t.Fatal(err)
		}
	})
}

// TestAllocationCeiling: a token of the largest size, good or not, costs its
// reader little more than its own size.
func TestAllocationCeiling(t *testing.T) {
	v, r, _ := newVerifier(t)
	flood := append(append([]byte{2, fieldID, idSize}, goodID()...), fieldEnd)
	for len(flood)+3 < MaxToken { // a thousand empty caveats
		flood = append(flood, fieldID, 0, fieldEnd)
	}
	for name, token := range map[string]string{
		"caveats without end": text.EncodeToString(flood),
		"nothing but zeros":   strings.Repeat("A", text.EncodedLen(MaxToken)),
		"too long":            strings.Repeat("A", 1<<20),
		"32 caveats": mint(t, r,
			append(times(MaxCaveats-1, "name ^= "+strings.Repeat("x", 90)+"%d"), inAnHour)...),
	} {
		const rounds, ceiling = 100, 10 * MaxToken
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			_, _ = v.Verify(token, Request{Name: strings.Repeat("x", 90)})
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > ceiling {
			t.Errorf("%s: %d bytes are allocated, at most %d", name, each, ceiling)
		}
	}
}
