package offer

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/capability"
	"allium/protocols/status"
)

var now = time.Unix(1_800_000_000, 0)

func key(t testing.TB) (crypto.PrivKey, peer.ID) {
	t.Helper()
	k, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return k, id
}

func ring(t testing.TB, from capability.Ring) capability.Ring {
	t.Helper()
	r, err := from.Rotate(now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sample(id peer.ID) Offer {
	return Offer{
		Peer: id, Seq: uint64(now.UnixMilli()), NotAfter: now.Add(MaxLifetime), Capacity: 1 << 40, Free: 1 << 39,
		Rate: 50 << 20, Region: "eu", Domain: "rack-1", Draining: true,
	}
}

func wantOutcome(t testing.TB, err error, want status.Outcome) {
	t.Helper()
	if got := status.Of(err); got != want {
		t.Errorf("outcome %s (%v), want %s", got, err, want)
	}
}

// TestOffer: what is signed is read, by nodes with a common key alone.
func TestOffer(t *testing.T) {
	t.Parallel()
	k, id := key(t)
	want := sample(id)
	envelope, err := want.Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(envelope, now); err != nil || got != want {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	old := ring(t, capability.Ring{})
	rotated := ring(t, old)
	retired, err := rotated.Retire(rotated.Keys()[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		from, to capability.Ring
		reads    bool
	}{
		{"one ring", old, old, true},
		{"rotated here", rotated, old, true},
		{"rotated there", old, rotated, true},
		{"retired here", retired, rotated, true},
		{"no common key", retired, old, false},
		{"another ring", ring(t, capability.Ring{}), old, false},
		{"no key", old, capability.Ring{}, false},
	} {
		sealed, err := Seal(envelope, test.from)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := Open(sealed, test.to)
		if err != nil || ok != test.reads || ok && !bytes.Equal(got, envelope) {
			t.Errorf("%s: %t, %v", test.name, ok, err)
		}
		if bytes.Contains(sealed, []byte("rack-1")) || bytes.Contains(sealed, []byte(id)) {
			t.Errorf("%s: an outsider reads it", test.name)
		}
	}
	_, err = Seal(envelope, capability.Ring{})
	wantOutcome(t, err, status.NotFound)
}

// TestBadOffers: what is out of bounds is neither signed nor read.
func TestBadOffers(t *testing.T) {
	t.Parallel()
	k, id := key(t)
	for name, change := range map[string]func(*Offer){
		"more free than there is": func(o *Offer) { o.Free = o.Capacity + 1 },
		"huge":                    func(o *Offer) { o.Capacity = maxBytes + 1 },
		"long region":             func(o *Offer) { o.Region = strings.Repeat("r", MaxRegion+1) },
		"long domain":             func(o *Offer) { o.Domain = strings.Repeat("d", MaxDomain+1) },
		"terminal codes":          func(o *Offer) { o.Domain = "\x1b[2J" },
	} {
		o := sample(id)
		change(&o)
		if _, err := o.Sign(k); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*Offer){
		"expired":             func(o *Offer) { o.NotAfter = now },
		"valid for too long":  func(o *Offer) { o.NotAfter = now.Add(MaxLifetime + clockSkew + time.Second) },
		"signed in an hour":   func(o *Offer) { o.Seq = uint64(now.Add(time.Hour).UnixMilli()) },
		"valid for centuries": func(o *Offer) { o.NotAfter = time.Unix(1<<39, 0) },
	} {
		o := sample(id)
		change(&o)
		envelope, err := o.Sign(k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(envelope, now); status.Of(err) != status.Stale {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, _ := key(t)
	w, err := canonical.Marshal(wire{Peer: []byte(id), Seq: 1, NotAfter: uint64(now.Unix() + 60)})
	if err != nil {
		t.Fatal(err)
	}
	forged, err := signed.Seal(other, w)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Verify(forged, now)
	wantOutcome(t, err, status.BadSignature)
	_, err = Verify(make([]byte, maxEnvelope+1), now)
	wantOutcome(t, err, status.BodyCap)
	_, err = Verify([]byte("none"), now)
	wantOutcome(t, err, status.BadSignature)
}

// TestChangedSeal: a bit that changes on the way makes another cluster's message, or none.
func TestChangedSeal(t *testing.T) {
	t.Parallel()
	k, id := key(t)
	envelope, err := sample(id).Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	r := ring(t, capability.Ring{})
	sealed, err := Seal(envelope, r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, ok, err := Open(changed, r); ok || err == nil && (i < 2 || i >= 2+tagSize) {
			t.Fatalf("byte %d: read %t, %v", i, ok, err)
		}
		if i%7 == 0 {
			if _, ok, err := Open(sealed[:i], r); ok || err == nil {
				t.Fatalf("%d bytes are read", i)
			}
		}
	}
}

// FuzzOpen: nothing that is not sealed under the ring is read, and what Verify takes it would write
// the same.
func FuzzOpen(f *testing.F) {
	k, id := key(f)
	envelope, err := sample(id).Sign(k)
	if err != nil {
		f.Fatal(err)
	}
	r := ring(f, capability.Ring{})
	sealed, err := Seal(envelope, r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(envelope)
	f.Add([]byte{version, 2, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		if got, ok, err := Open(p, r); ok && (err != nil || !bytes.Equal(got, envelope)) {
			t.Fatalf("% x is read", p)
		}
		if o, err := Verify(p, now); err == nil {
			again, err := o.Sign(k)
			if err != nil || o.Peer == id && !bytes.Equal(again, p) {
				t.Fatalf("%+v is written otherwise: %v", o, err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	k, id := key(b)
	envelope, err := sample(id).Sign(k)
	if err != nil {
		b.Fatal(err)
	}
	r := ring(b, ring(b, capability.Ring{}))
	sealed, err := Seal(envelope, r)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := Open(sealed, r); !ok || err != nil {
			b.Fatal(err)
		}
	}
}
