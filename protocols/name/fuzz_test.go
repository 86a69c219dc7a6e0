package name

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

func FuzzLabel(f *testing.F) {
	for _, s := range []string{
		"blog", "Bücher", "xn--bcher-kva", "東京タワー", "pаypal", "a\u200db", "نام\u200cای", "Xn--BBe", "..",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLabel(s)
		if err == nil {
			checkLabel(t, l)
			return
		}
		var bad *LabelError
		if !errors.As(err, &bad) || len(err.Error()) > 1000 {
			t.Errorf("%q: %v", s, err)
		}
	})
}

func FuzzName(f *testing.F) {
	_, zone := newKey(f, 1)
	f.Add("Blog." + zone.String())
	f.Add("blog." + zone.ID().String())
	f.Add("www.example.com")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			if status.Of(err) != status.BadAddress {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if again, err := Parse(n.String()); err != nil || again != n {
			t.Errorf("%s becomes %s, %v", n, again, err)
		}
	})
}

func FuzzValue(f *testing.F) {
	_, zone := newKey(f, 1)
	for _, s := range []string{"", "text", b3.Sum(nil).String() + "/a/b", "blog." + zone.String(), "b3:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseValue(s)
		if err != nil {
			if status.Of(err) != status.BadRequest {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if v.String() != s || (v.Kind() == Withdrawn) != (s == "") {
			t.Errorf("%q became %q of kind %s", s, v, v.Kind())
		}
		if root, path, ok := v.Address(); ok {
			if again := root.String() + strings.TrimSuffix("/"+path, "/"); again != s {
				t.Errorf("%q becomes %q", v, again)
			}
		}
		if n, ok := v.Alias(); ok && n.String() != s {
			t.Errorf("%q is the name %s", s, n)
		}
	})
}

// FuzzRecord seals each payload: what is taken is signed again to the same bytes.
func FuzzRecord(f *testing.F) {
	key, zone := newKey(f, 1)
	for _, text := range []string{"", "hello", b3.Sum(nil).String()} {
		s := sign(f, key, sample(f, zone, NextSeq(0, at), text))
		payload, _, err := kind.Peek(s.Envelope)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		raw, err := kind.Seal(key, payload)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(raw, at)
		var refused *RecordError
		if err != nil {
			if !errors.As(err, &refused) {
				t.Errorf("untyped: %v", err)
			}
			return
		}
		again, err := Sign(key, s.Record, at)
		if err != nil || !bytes.Equal(again.Envelope, raw) || s.Name.Zone != zone {
			t.Errorf("%x became %x, %v", raw, again.Envelope, err)
		}
	})
}

// FuzzEnvelope: nothing but what was signed is opened.
func FuzzEnvelope(f *testing.F) {
	key, zone := newKey(f, 1)
	good := sign(f, key, sample(f, zone, NextSeq(0, at), "hello"))
	f.Add(good.Envelope)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Open(raw, at)
		var refused *RecordError
		switch {
		case err != nil && !errors.As(err, &refused):
			t.Errorf("untyped: %v", err)
		case err == nil && s.Name.Zone == zone && s.Record != good.Record:
			t.Errorf("a forgery: %+v", s.Record)
		}
	})
}

// FuzzMap seals each payload: what is taken is signed again to the same bytes.
func FuzzMap(f *testing.F) {
	key, zone := newKey(f, 9)
	text, _ := signMap(f, someMap(f))
	raw, err := record.DecodeText(mapBlock, text, MaxMapText)
	if err != nil {
		f.Fatal(err)
	}
	payload, _, err := mapKind.Peek(raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		raw, err := mapKind.Seal(key, payload)
		if err != nil {
			t.Fatal(err)
		}
		text := record.EncodeText(mapBlock, raw)
		m, err := openMap(text, zone.ID(), at)
		if err != nil {
			if status.Of(err) == status.Internal {
				t.Errorf("untyped: %v", err)
			}
			return
		}
		if again, err := SignMap(key, m, at); err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s became %s, %v", text, again, err)
		}
		if m.NotAfter.After(at.Add(MaxMapLife + time.Hour)) {
			t.Errorf("it ends at %s", m.NotAfter)
		}
	})
}
