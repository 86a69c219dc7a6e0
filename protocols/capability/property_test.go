package capability

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// anyCaveat draws a caveat that has something to do with anyAsk.
func anyCaveat() *rapid.Generator[Caveat] {
	return rapid.Custom(func(t *rapid.T) Caveat {
		words := func(of ...string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(of), 1, 3).Draw(t, "words"), ",")
		}
		var s string
		switch rapid.SampledFrom([]Kind{KindOp, KindObject, KindName, KindMethod, KindBytes,
			KindRate, KindExpiry, KindNode,
			KindLabel}).Draw(t, "kind") {
		case KindOp:
			s = "op in " + words("get", "put", "pin")
		case KindMethod:
			s = "method in " + words("GET", "PUT", "POST")
		case KindObject:
			s = "obj ^= " + object.String()[:rapid.IntRange(3, 67).Draw(t, "digits")]
		case KindName:
			s = "name ^= " + "docs.example"[:rapid.IntRange(1, 12).Draw(t, "letters")]
		case KindLabel:
			s = "label = " + rapid.SampledFrom([]string{"photos", "photos", "docs"}).Draw(t, "label")
		case KindBytes:
			s = fmt.Sprintf("bytes <= %d", rapid.Int64Range(0, 1<<20).Draw(t, "bytes"))
		case KindRate:
			s = fmt.Sprintf("rate <= %d", rapid.IntRange(1, maxRate).Draw(t, "rate"))
		case KindExpiry:
			s = "exp < " + start.Add(time.Duration(rapid.IntRange(-10, 1000).Draw(t,
				"seconds"))*time.Second).Format(time.RFC3339)
		case KindNode:
			s = "aud = " + rapid.SampledFrom([]string{self, self, "another"}).Draw(t, "node")
		}
		c, err := ParseCaveat(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

func anyAsk() *rapid.Generator[Request] {
	return rapid.Custom(func(t *rapid.T) Request {
		return Request{
			Op:     rapid.SampledFrom([]Op{Get, Put, Pin}).Draw(t, "op"),
			Object: rapid.SampledFrom([]b3.Root{{}, object, b3.Sum(nil)}).Draw(t, "object"),
			Name:   rapid.SampledFrom([]string{"", "docs.example", "doc"}).Draw(t, "name"),
			Method: rapid.SampledFrom([]string{"GET", "PUT"}).Draw(t, "method"),
			Bytes:  rapid.Int64Range(-1, 1<<20).Draw(t, "size"), Recursive: rapid.Bool().Draw(t, "below"),
			Label: rapid.SampledFrom([]string{"", "photos", "docs"}).Draw(t, "asked label"),
		}
	})
}

// TestAttenuationNarrows: what an attenuated capability allows, the one that it
// was made of allows, too, for longer and for more.
func TestAttenuationNarrows(t *testing.T) {
	t.Parallel()
	r, err := Ring{}.Rotate(start)
	if err != nil {
		t.Fatal(err)
	}
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		now := start.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "now")) * time.Second)
		v := NewVerifier(self, func() time.Time { return now }, nil)
		v.Set(r, Revocations{})
		have := rapid.SliceOfN(anyCaveat(), 0, 4).Draw(t, "have")
		late, err := ParseCaveat("exp < 2026-03-01T12:20:00Z")
		if err != nil {
			t.Fatal(err)
		}
		token, err := r.Mint(start.Add(-time.Minute), append(have, late)...)
		if err != nil {
			t.Fatal(err)
		}
		child, err := Attenuate(token, rapid.SliceOfN(anyCaveat(), 0, 4).Draw(t, "more")...)
		if err != nil {
			t.Fatal(err)
		}
		ask := anyAsk().Draw(t, "ask")
		narrow, err := v.Verify(child, ask)
		if err != nil {
			if o := status.Of(err); o != status.Unauthenticated && o != status.Forbidden && o != status.RateLimit {
				t.Fatalf("%v is %s", err, o)
			}
			return
		}
		allowed++
		wide, err := fresh(v).Verify(token, ask)
		if err != nil {
			t.Fatalf("the child may what its parent may not: %v", err)
		}
		if wide.ID != narrow.ID || narrow.Expires.After(wide.Expires) ||
			wide.MaxBytes >= 0 && (narrow.MaxBytes < 0 || narrow.MaxBytes > wide.MaxBytes) ||
			wide.Label != "" && narrow.Label != wide.Label {
			t.Fatalf("%+v is wider than %+v", narrow, wide)
		}
	})
	if allowed == 0 {
		t.Error("nothing was allowed: the property was not looked at")
	}
}

// fresh is v with full buckets.
func fresh(v *Verifier) *Verifier {
	again := NewVerifier(v.self, v.now, nil)
	again.state.Store(v.state.Load())
	return again
}

// TestRemovedCaveats: a capability from which a caveat was taken, or in which
// two changed places, is none.
func TestRemovedCaveats(t *testing.T) {
	t.Parallel()
	r, err := Ring{}.Rotate(start)
	if err != nil {
		t.Fatal(err)
	}
	v := NewVerifier(self, func() time.Time { return start }, nil)
	v.Set(r, Revocations{})
	rapid.Check(t, func(t *rapid.T) {
		token, err := r.Mint(start.Add(-time.Minute),
			append(rapid.SliceOfN(anyCaveat(), 1, 5).Draw(t, "have"), Caveat{kind: KindExpiry, n: start.Unix() + 1})...)
		if err != nil {
			return // one of them has expired
		}
		p, err := text.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		bounds := []int{idStart + idSize + 1}
		for at := bounds[0]; p[at] == fieldID; bounds = append(bounds, at) {
			size := int(p[at+1])
			if size >= 0x80 {
				return
			}
			at += 2 + size + 1
		}
		i := rapid.IntRange(0, len(bounds)-2).Draw(t, "removed")
		cut := append(append([]byte{}, p[:bounds[i]]...), p[bounds[i+1]:]...)
		if _, err := v.Verify(text.EncodeToString(cut), Request{Op: Get}); RefusalOf(err) != string(BadSignature) {
			t.Fatalf("without caveat %d: %v", i, err)
		}
	})
}
