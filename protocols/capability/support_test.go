package capability

import (
	"fmt"
	"testing"
	"time"

	macaroon "gopkg.in/macaroon.v2"

	"allium/protocols/b3"
)

// start is when these tests are.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const self = "12D3KooWSelf"

// object is one that caveats are about.
var object = b3.Sum([]byte("an object"))

// put is a request that ordinary caveats allow.
func put() Request { return Request{Op: Put, Object: object, Method: "PUT", Bytes: 1000} }

// below is one that reaches what the object leads to.
func below() Request {
	return Request{Op: Pin, Object: object, Recursive: true, Method: "POST", Bytes: -1}
}

// labelled is one that asks for a label.
func labelled(label string) Request {
	return Request{Op: Pin, Object: object, Label: label, Method: "POST", Bytes: -1}
}

func newRing(t testing.TB) Ring {
	t.Helper()
	r, err := Ring{}.Rotate(start)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// clock is a time that a test moves.
type clock struct{ now time.Time }

func newVerifier(t testing.TB) (*Verifier, Ring, *clock) {
	t.Helper()
	c := &clock{start}
	v := NewVerifier(self, func() time.Time { return c.now }, nil)
	r := newRing(t)
	v.Set(r, Revocations{})
	return v, r, c
}

func caveat(t testing.TB, s string) Caveat {
	t.Helper()
	c, err := ParseCaveat(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func caveats(t testing.TB, ss ...string) []Caveat {
	t.Helper()
	var cs []Caveat
	for _, s := range ss {
		cs = append(cs, caveat(t, s))
	}
	return cs
}

// inAnHour is an expiry.
var inAnHour = "exp < " + start.Add(time.Hour).Format(time.RFC3339)

func mint(t testing.TB, r Ring, ss ...string) string {
	t.Helper()
	token, err := r.Mint(start, caveats(t, ss...)...)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// forge mints what Mint would not: any id and any caveats, under a key.
func forge(t testing.TB, r Ring, id []byte, location string, caveats ...string) *macaroon.Macaroon {
	t.Helper()
	m, err := macaroon.New(r.keys[len(r.keys)-1].secret[:], id, location, macaroon.V2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range caveats {
		if err := m.AddFirstPartyCaveat([]byte(c)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func raw(t testing.TB, m *macaroon.Macaroon) []byte {
	t.Helper()
	p, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func goodID() []byte { return identity{kid: 1, nonce: nonce{7}, issued: start.Unix()}.bytes() }

func times(n int, format string) []string {
	var ss []string
	for i := range n {
		ss = append(ss, fmt.Sprintf(format, i))
	}
	return ss
}

func shown(i Info) string { return fmt.Sprintf("%+v", i) }
