package messages

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2precord "github.com/libp2p/go-libp2p/core/record"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestRecordGolden fixes the payload of OAP1 §11 to the byte.
func TestRecordGolden(t *testing.T) {
	id := fixedIdentity(t).id
	r := Record{Root: b3.Sum(nil), Provider: id, Seq: 1_700_000_000_123, NotAfter: time.Unix(1_700_086_400, 0)}
	got, err := r.MarshalRecord()
	if err != nil {
		t.Fatal(err)
	}
	want := "a4" + // map of 4
		"01" + "5822" + "1e20af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" + // blake3 of nothing
		"02" + "5826" + hex.EncodeToString([]byte(id)) +
		"03" + "1b0000018bcfe5687b" +
		"04" + "1a65554280"
	if hex.EncodeToString(got) != want {
		t.Fatalf("got  %x\nwant %s", got, want)
	}
	var back Record
	if err := back.UnmarshalRecord(got); err != nil {
		t.Fatal(err)
	}
	if back != r {
		t.Errorf("got %+v, want %+v", back, r)
	}
}

// TestRecordDecodeRefusals: one payload, one form.
func TestRecordDecodeRefusals(t *testing.T) {
	me := newIdentity(t)
	good := wireRecord{Multihash: root("x").Multihash(), Provider: []byte(me.id), Seq: 1, NotAfter: 2}
	enc := func(v any) []byte {
		p, err := canonical.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	sha := good
	sha.Multihash = append([]byte{0x12, 0x20}, make([]byte, 32)...)
	longID := good
	longID.Provider = bytes.Repeat([]byte{0}, maxPeerID+1)
	never := good
	never.NotAfter = 1 << 63
	wide := enc(good)
	wide = append(wide[:len(wide)-1:len(wide)-1], 0x18, 0x02) // not_after 2 in two bytes
	for name, p := range map[string][]byte{
		"empty":         {},
		"truncated":     enc(good)[:20],
		"trailing":      append(enc(good), 0),
		"not a map":     enc([]int{1, 2, 3, 4}),
		"missing key":   enc(map[int]any{1: good.Multihash, 2: good.Provider, 3: 1}),
		"unknown key":   enc(map[int]any{1: good.Multihash, 2: good.Provider, 3: 1, 4: 2, 5: 0}),
		"text key":      enc(map[any]any{"1": good.Multihash, 2: good.Provider, 3: 1, 4: 2}),
		"negative":      enc(map[int]any{1: good.Multihash, 2: good.Provider, 3: 1, 4: -2}),
		"wide integer":  wide,
		"other hash":    enc(sha),
		"long peer id":  enc(longID),
		"not a peer id": enc(wireRecord{Multihash: good.Multihash, Provider: []byte("bob"), Seq: 1, NotAfter: 2}),
		"never expires": enc(never),
	} {
		if err := new(Record).UnmarshalRecord(p); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSealedSizes(t *testing.T) {
	me := newIdentity(t)
	s := me.seal(t, root("x"), uint64(time.Now().UnixMilli()), time.Now().Add(time.Hour))
	t.Logf("envelope %d bytes, peer record with one address %d bytes", len(s.Envelope), len(s.PeerRecord))
	if len(s.Envelope) > 250 {
		t.Errorf("an envelope has %d bytes", len(s.Envelope))
	}
}

// TestSealCutsAddresses: a host with very many addresses still has a record.
func TestSealCutsAddresses(t *testing.T) {
	me := newIdentity(t)
	var addrs []ma.Multiaddr
	for range 200 {
		addrs = append(addrs, ma.StringCast("/ip6/2001:db8::1/udp/4901/quic-v1"))
	}
	now := time.Now()
	s, err := Seal(me.key, Record{Root: root("x"), Provider: me.id, NotAfter: now.Add(time.Hour).Truncate(time.Second)},
		peer.PeerRecordFromAddrInfo(peer.AddrInfo{ID: me.id, Addrs: addrs}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Open(s.Envelope, s.PeerRecord, root("x"), now)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Addrs.Addrs); n < 8 || n > 100 {
		t.Errorf("%d addresses are left", n)
	}
}

// TestOpen is every refusal of a record, and what is accepted at the edges.
func TestOpen(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	me, other := newIdentity(t), newIdentity(t)
	good := me.seal(t, root("x"), 1, now.Add(time.Hour))
	env := func(key crypto.PrivKey, r libp2precord.Record) []byte {
		p, err := sealEnvelope(r, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	flip := func(p []byte) []byte {
		q := bytes.Clone(p)
		q[len(q)-1] ^= 1 // in the signature, the envelope's last field
		return q
	}
	rsa, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name       string
		env, pr    []byte
		at         time.Time
		root       b3.Root
		want       Refusal // empty: accepted
		wantStatus status.Outcome
	}{
		{name: "good"},
		{name: "last second", at: good.NotAfter},
		{name: "longest life and a skewed clock", at: good.NotAfter.Add(-MaxLifetime - ClockSkew)},
		{name: "large envelope", env: make([]byte, MaxEnvelope+1), want: Oversize, wantStatus: status.BodyCap},
		{name: "large peer record", pr: make([]byte, MaxPeerRecord+1), want: Oversize, wantStatus: status.BodyCap},
		{name: "key of another kind", env: env(rsa, &good.Record), want: Oversize, wantStatus: status.BodyCap},
		{name: "empty", env: []byte{}, want: Unsigned, wantStatus: status.BadSignature},
		{name: "not an envelope", env: []byte("who needs signatures"), want: Unsigned, wantStatus: status.BadSignature},
		{name: "bare payload", env: mustPayload(t, &good.Record), want: Unsigned, wantStatus: status.BadSignature},
		{name: "a peer record instead", env: good.PeerRecord, want: WrongType, wantStatus: status.BadSignature},
		{
			name: "other payload type",
			env: env(me.key, &raw{
				domain: recordDomain, codec: "/allium/provider/2", payload: mustPayload(t, &good.Record),
			}),
			want: WrongType, wantStatus: status.BadSignature,
		},
		{
			name: "other domain",
			env: env(me.key, &raw{
				domain: "allium-name", codec: string(recordType), payload: mustPayload(t, &good.Record),
			}),
			want: BadSignature, wantStatus: status.BadSignature,
		},
		{name: "flipped signature", env: flip(good.Envelope), want: BadSignature, wantStatus: status.BadSignature},
		{
			name: "payload not canonical",
			env: env(me.key, &raw{
				domain: recordDomain, codec: string(recordType), payload: append(mustPayload(t, &good.Record), 0),
			}),
			want: Malformed, wantStatus: status.BadRequest,
		},
		{name: "another's key", env: env(other.key,
			&good.Record), want: WrongProvider, wantStatus: status.BadSignature},
		{name: "another object", root: root("y"), want: WrongKey, wantStatus: status.BadRequest},
		{name: "a second late", at: good.NotAfter.Add(time.Second), want: Expired, wantStatus: status.Stale},
		{
			name: "lives too long", at: good.NotAfter.Add(-MaxLifetime - ClockSkew - time.Second),
			want: FutureDated, wantStatus: status.Stale,
		},
		{name: "no peer record", pr: []byte{}, want: BadPeerRecord, wantStatus: status.BadSignature},
		{
			name: "peer record of another", pr: other.seal(t, root("x"), 1, now).PeerRecord,
			want: BadPeerRecord, wantStatus: status.BadSignature,
		},
		{
			name: "peer record by another", pr: env(other.key, me.peerRecord()),
			want: BadPeerRecord, wantStatus: status.BadSignature,
		},
		{name: "peer record forged", pr: flip(good.PeerRecord), want: BadPeerRecord, wantStatus: status.BadSignature},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env, pr, at, key := good.Envelope, good.PeerRecord, now, root("x")
			if tc.env != nil {
				env = tc.env
			}
			if tc.pr != nil {
				pr = tc.pr
			}
			if !tc.at.IsZero() {
				at = tc.at
			}
			if !tc.root.IsZero() {
				key = tc.root
			}
			got, err := Open(env, pr, key, at)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				want := good.Record
				if latest := at.Add(MaxLifetime); want.NotAfter.After(latest) {
					want.NotAfter = latest // no record counts for longer
				}
				if got.Record != want || len(got.Addrs.Addrs) != 1 {
					t.Errorf("got %+v", got)
				}
				return
			}
			var re *RecordError
			if !errors.As(err, &re) || re.Refusal != tc.want {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
			if status.Of(err) != tc.wantStatus {
				t.Errorf("the outcome is %s, want %s", status.Of(err), tc.wantStatus)
			}
		})
	}
}

// raw is a record of any kind.
type raw struct {
	domain, codec string
	payload       []byte
}

func (r *raw) Domain() string                 { return r.domain }
func (r *raw) Codec() []byte                  { return []byte(r.codec) }
func (r *raw) MarshalRecord() ([]byte, error) { return r.payload, nil }
func (r *raw) UnmarshalRecord(p []byte) error { r.payload = p; return nil }

func mustPayload(t testing.TB, r *Record) []byte {
	t.Helper()
	p, err := r.MarshalRecord()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func FuzzRecord(f *testing.F) {
	me := newIdentity(f)
	f.Add(func() []byte {
		p, _ := (&Record{Root: root("x"), Provider: me.id, Seq: 1, NotAfter: time.Unix(2, 0)}).MarshalRecord()
		return p
	}())
	f.Add([]byte{0xa4})
	f.Fuzz(func(t *testing.T, p []byte) {
		var r Record
		if r.UnmarshalRecord(p) != nil {
			return
		}
		again, err := r.MarshalRecord()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p, again) {
			t.Fatalf("%x was accepted and encodes to %x", p, again)
		}
	})
}

// FuzzOpen feeds whole envelopes: nothing but the good one is accepted.
func FuzzOpen(f *testing.F) {
	me := fixedIdentity(f)
	now := time.Unix(1_800_000_000, 0)
	good := me.seal(f, root("x"), 1, now.Add(time.Hour))
	f.Add(good.Envelope, good.PeerRecord)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, env, pr []byte) {
		got, err := Open(env, pr, root("x"), now)
		if err != nil {
			var re *RecordError
			if !errors.As(err, &re) {
				t.Fatalf("an untyped refusal: %v", err)
			}
			return
		}
		if got.Provider != me.id {
			t.Fatal("a forged record was accepted")
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	me := newIdentity(b)
	r := Record{Root: root("x"), Provider: me.id, Seq: 1, NotAfter: time.Now().Add(time.Hour).Truncate(time.Second)}
	pr := me.peerRecord()
	for b.Loop() {
		if _, err := Seal(me.key, r, pr); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	me := newIdentity(b)
	now := time.Now()
	s := me.seal(b, root("x"), 1, now.Add(time.Hour))
	for b.Loop() {
		if _, err := Open(s.Envelope, s.PeerRecord, root("x"), now); err != nil {
			b.Fatal(err)
		}
	}
}
