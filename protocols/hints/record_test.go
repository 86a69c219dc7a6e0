package hints

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

var now = time.Unix(1_800_000_000, 0)

// TestGolden fixes the payload to the byte.
func TestGolden(t *testing.T) {
	me := fixedIdentity(t, 7)
	a := me.announce(t, 1, 2, time.Unix(1_700_086_400, 0), b3.Sum(nil))
	payload, _, err := signed.Open(a.envelope)
	if err != nil {
		t.Fatal(err)
	}
	want := "a6" +
		"01" + "5826" + hex.EncodeToString([]byte(me.id)) +
		"02" + "01" +
		"03" + "02" +
		"04" + "1a65554280" +
		"05" + "5820" + "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" +
		"06" + "81" + "48" + hex.EncodeToString(ma.StringCast("/ip4/192.0.2.1/tcp/4901").Bytes())
	if got := hex.EncodeToString(payload); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if sum := b3.Sum(payload); !bytes.Equal(a.id[:], sum[:16]) {
		t.Errorf("the id is %x", a.id)
	}
}

// TestVerify is every refusal, and what is taken at the edges.
func TestVerify(t *testing.T) {
	me, other := fixedIdentity(t, 1), fixedIdentity(t, 2)
	hour := now.Add(time.Hour)
	good := me.announce(t, 1, 1, hour, roots(0, 3)...)
	sealed := func(k record.Kind, payload []byte) []byte {
		raw, err := k.Seal(me.key, payload)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	// edited signs a payload of which something was changed.
	edited := func(change func(*wire)) []byte {
		w := wire{
			Provider: []byte(me.id),
			Batch:    1,
			Seq:      1,
			NotAfter: uint64(hour.Unix()),
			Roots:    sorted(roots(0, 3)),
			Addrs:    [][]byte{},
		}
		change(&w)
		p, err := canonical.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		return sealed(signed, p)
	}
	forged := bytes.Clone(good.envelope)
	forged[len(forged)-1] ^= 1
	payload, _, _ := signed.Peek(good.envelope)
	for _, tc := range []struct {
		name string
		raw  []byte
		at   time.Time
		want status.Outcome
	}{
		{name: "good", raw: good.envelope},
		{name: "no objects", raw: me.announce(t, 1, 1, hour).envelope},
		{name: "as many as there may be", raw: me.announce(t, 1, 1, hour, roots(0, maxRoots)...).envelope},
		{name: "as it expires", raw: good.envelope, at: hour, want: status.Stale},
		{name: "a second before", raw: good.envelope, at: hour.Add(-time.Second)},
		{name: "the longest life", raw: good.envelope, at: hour.Add(-maxLifetime - clockSkew)},
		{
			name: "too long a life", raw: good.envelope, at: hour.Add(-maxLifetime - clockSkew - time.Second),
			want: status.Stale,
		},
		{name: "too long", raw: make([]byte, maxEnvelope+1), want: status.BodyCap},
		{name: "nothing", raw: nil, want: status.BadSignature},
		{name: "not signed", raw: payload, want: status.BadSignature},
		{name: "forged", raw: forged, want: status.BadSignature},
		{name: "another kind", raw: sealed(record.KindOf("provider"), payload), want: status.BadSignature},
		{
			name: "of another provider", raw: edited(func(w *wire) { w.Provider = []byte(other.id) }),
			want: status.BadSignature,
		},
		{name: "trailing bytes", raw: sealed(signed, append(bytes.Clone(payload), 0)), want: status.BadRequest},
		{name: "no peer id", raw: edited(func(w *wire) { w.Provider = []byte("bob") }), want: status.BadRequest},
		{
			name: "a long peer id", raw: edited(func(w *wire) { w.Provider = make([]byte, maxPeerID+1) }),
			want: status.BadRequest,
		},
		{name: "no end", raw: edited(func(w *wire) { w.NotAfter = 1 << 63 }), want: status.BadRequest},
		{name: "half an object", raw: edited(func(w *wire) { w.Roots = w.Roots[:40] }), want: status.BadRequest},
		{
			name: "an object twice",
			raw:  edited(func(w *wire) { w.Roots = append(bytes.Clone(w.Roots[:32]), w.Roots[:32]...) }),
			want: status.BadRequest,
		},
		{
			name: "out of order",
			raw:  edited(func(w *wire) { w.Roots = append(bytes.Clone(w.Roots[32:64]), w.Roots[:32]...) }),
			want: status.BadRequest,
		},
		{
			name: "too many objects", raw: edited(func(w *wire) { w.Roots = sorted(roots(0, maxRoots+1)) }),
			want: status.BadRequest,
		},
		{name: "too many addresses", raw: edited(func(w *wire) {
			w.Addrs = slicesRepeat(ma.StringCast("/ip4/192.0.2.1").Bytes(), maxAddrs+1)
		}), want: status.BadRequest},
		{
			name: "a long address", raw: edited(func(w *wire) { w.Addrs = [][]byte{make([]byte, maxAddr+1)} }),
			want: status.BadRequest,
		},
		{name: "no address", raw: edited(func(w *wire) { w.Addrs = [][]byte{{0xff}} }), want: status.BadRequest},
		{name: "an empty address", raw: edited(func(w *wire) { w.Addrs = [][]byte{{}} }), want: status.BadRequest},
	} {
		at := tc.at
		if at.IsZero() {
			at = now
		}
		a, err := verify(tc.raw, at)
		if status.Of(err) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
		if err == nil && (a.provider != me.id || !bytes.Equal(a.envelope, tc.raw)) {
			t.Errorf("%s: got %+v", tc.name, a)
		}
	}
}

func slicesRepeat(p []byte, n int) (out [][]byte) {
	for range n {
		out = append(out, p)
	}
	return out
}

// TestSealCutsAddresses: a host with many or long addresses can announce.
func TestSealCutsAddresses(t *testing.T) {
	me := fixedIdentity(t, 1)
	a := me.make(1, 1, now.Add(time.Hour), roots(0, maxRoots)...)
	a.addrs = []ma.Multiaddr{ma.StringCast("/dns/" + string(bytes.Repeat([]byte("a"), maxAddr)) + "/tcp/1")}
	for range 20 {
		a.addrs = append(a.addrs, ma.StringCast("/ip6/2001:db8::1/udp/4901/quic-v1"))
	}
	if err := a.seal(me.key); err != nil {
		t.Fatal(err)
	}
	got, err := verify(a.envelope, now)
	if err != nil || len(got.addrs) != maxAddrs || got.id != a.id {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzVerify: whatever comes is refused with a reason or is what its provider
// signed, and what is trusted reads the same as what is verified.
func FuzzVerify(f *testing.F) {
	me := fixedIdentity(f, 1)
	good := me.announce(f, 1, 1, now.Add(time.Hour), roots(0, 2)...)
	f.Add(good.envelope)
	f.Add(me.announce(f, 2, 1, now.Add(time.Hour)).envelope)
	f.Add([]byte{})
	payload, _, _ := signed.Peek(good.envelope)
	f.Add(payload)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range [][]byte{raw, reseal(t, me, raw)} {
			a, err := verify(p, now)
			b, trustErr := trust(p, now)
			switch {
			case err == nil && (trustErr != nil || a.id != b.id || a.slot != b.slot):
				t.Fatalf("trusted as %+v, %v", b, trustErr)
			case err != nil && status.Of(err) == status.Internal:
				t.Fatalf("untyped: %v", err)
			case err == nil:
				again := *a
				if again.provider != me.id {
					return // another's key, made by the fuzzer
				}
				if err := again.seal(me.key); err != nil || again.id != a.id {
					t.Fatalf("it encodes to another: %v", err)
				}
			}
		}
	})
}

// reseal signs p as a payload, so that the fuzzer gets past the signature.
func reseal(t testing.TB, me identity, p []byte) []byte {
	raw, err := signed.Seal(me.key, p)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func BenchmarkVerify(b *testing.B) {
	me := fixedIdentity(b, 1)
	for name, n := range map[string]int{"one object": 1, "512 objects": maxRoots} {
		s := newTested(b, me)
		a := me.announce(b, 1, 1, time.Now().Add(time.Hour), roots(0, n)...)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Validate(me.id, a.envelope); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
