package messages

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/status"
)

func encode(t testing.TB, v any) []byte {
	t.Helper()
	p, err := canonical.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestExchangeGolden fixes the messages of OAP1 §11 to the byte.
func TestExchangeGolden(t *testing.T) {
	key := root("x").Multihash()
	for name, tc := range map[string]struct {
		v    any
		want string
	}{
		"get": {Request{Op: OpGet, Key: key}, "a2" + "0002" + "015822" + hex.EncodeToString(key)},
		"put": {
			Request{Op: OpPut, Key: key, Envelope: []byte{1}, PeerRecord: []byte{2}},
			"a4" + "0001" + "015822" + hex.EncodeToString(key) + "024101" + "034102",
		},
		"ok":      {Response{Code: 200}, "a1" + "0018c8"},
		"refusal": {Response{Code: 422, Reason: "stale"}, "a2" + "001901a6" + "03657374616c65"},
		"provider": {
			Response{Code: 200, Providers: []Provider{{Envelope: []byte{1}, PeerRecord: []byte{2}}}},
			"a2" + "0018c8" + "0181" + "8241014102",
		},
		"closer": {
			Response{Code: 200, Closer: []Peer{{ID: []byte{1}, Addrs: [][]byte{{4}}}}},
			"a2" + "0018c8" + "0281" + "a2" + "014101" + "02814104",
		},
	} {
		if got := hex.EncodeToString(encode(t, tc.v)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestDecodeRequest(t *testing.T) {
	key := []byte(root("x").Multihash())
	rec := newIdentity(t).seal(t, root("x"), 1, time.Now().Add(time.Hour))
	for _, tc := range []struct {
		name string
		p    []byte
		want status.Outcome
	}{
		{"get", encode(t, Request{Op: OpGet, Key: key}), status.OK},
		{"put", encode(t, Request{Op: OpPut, Key: key, Envelope: rec.Envelope, PeerRecord: rec.PeerRecord}), status.OK},
		{"empty", nil, status.BadRequest},
		{"garbage", []byte("GET / HTTP/1.1\r\n"), status.BadRequest},
		{"trailing", append(encode(t, Request{Op: OpGet, Key: key}), 0), status.BadRequest},
		{"unknown member", encode(t, map[int]any{0: OpGet, 1: key, 9: 1}), status.BadRequest},
		{
			"duplicate member",
			append([]byte{0xa3, 0, 2}, append(encode(t, map[int]any{1: key})[1:], 0, 2)...),
			status.BadRequest,
		},
		{"explicit default", encode(t, map[int]any{0: OpGet, 1: key, 2: []byte{}}), status.BadRequest},
		{"get with a record", encode(t, Request{Op: OpGet, Key: key, Envelope: rec.Envelope}), status.BadRequest},
		{"no key", encode(t, Request{Op: OpGet}), status.BadAddress},
		{"null key", encode(t, map[int]any{0: OpGet, 1: nil}), status.BadRequest},
		{
			"key of another hash",
			encode(t, Request{Op: OpGet, Key: append([]byte{0x12, 0x20}, key[2:]...)}),
			status.BadAddress,
		},
		{"short key", encode(t, Request{Op: OpGet, Key: key[:33]}), status.BadAddress},
		{"long key", encode(t, Request{Op: OpGet, Key: append(bytes.Clone(key), 0)}), status.BadAddress},
		{"operation", encode(t, Request{Op: 5, Key: key}), status.Unsupported},
		{"put without a record", encode(t, Request{Op: OpPut, Key: key}), status.BadSignature},
		{"put without a peer record", encode(t,
			Request{Op: OpPut, Key: key, Envelope: rec.Envelope}), status.BadSignature},
		{
			"large record",
			encode(t, Request{Op: OpPut, Key: key, Envelope: make([]byte, MaxEnvelope+1), PeerRecord: rec.PeerRecord}),
			status.BodyCap,
		},
		{
			"large peer record",
			encode(t, Request{Op: OpPut, Key: key, Envelope: rec.Envelope, PeerRecord: make([]byte, MaxPeerRecord+1)}),
			status.BodyCap,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, err := DecodeRequest(tc.p)
			if got := status.Of(err); got != tc.want {
				t.Fatalf("got %s (%v), want %s", got, err, tc.want)
			}
			if err == nil && q.Root() != root("x") {
				t.Errorf("the key is %s", q.Root())
			}
		})
	}
}

// TestRequestTooLarge: a request that no peer would read is not encoded.
func TestRequestTooLarge(t *testing.T) {
	q := Request{Op: OpPutName, Key: make([]byte, 32), Envelope: make([]byte, MaxMessage)}
	if p, err := q.Encode(); status.Of(err) != status.FrameOversize {
		t.Errorf("%d bytes, %v", len(p), err)
	}
}

func TestDecodeResponse(t *testing.T) {
	many := func(n int) (ps []Provider) {
		for range n {
			ps = append(ps, Provider{Envelope: []byte{1}, PeerRecord: []byte{2}})
		}
		return ps
	}
	addrs := func(n int) [][]byte { return append([][]byte{}, make([][]byte, n)...) }
	full := Peer{ID: []byte{1}}
	for range MaxCloserAddrs {
		full.Addrs = append(full.Addrs, []byte{4})
	}
	for name, tc := range map[string]struct {
		p  []byte
		ok bool
	}{
		"plain":            {encode(t, Response{Code: 200}), true},
		"most records":     {encode(t, Response{Code: 200, Providers: many(MaxProviders)}), true},
		"most addresses":   {encode(t, Response{Code: 200, Closer: []Peer{full}}), true},
		"empty":            {nil, false},
		"no code":          {encode(t, Response{}), false},
		"large code":       {encode(t, Response{Code: 1 << 40}), false},
		"too many records": {encode(t, Response{Code: 200, Providers: many(MaxProviders + 1)}), false},
		"too many peers":   {encode(t, Response{Code: 200, Closer: make([]Peer, MaxCloser+1)}), false},
		"too many addresses": {
			encode(t, Response{Code: 200, Closer: []Peer{{ID: []byte{1}, Addrs: addrs(MaxCloserAddrs + 1)}}}),
			false,
		},
		"short pair":  {encode(t, map[int]any{0: 200, 1: [][]any{{[]byte{1}}}}), false},
		"long pair":   {encode(t, map[int]any{0: 200, 1: [][]any{{[]byte{1}, []byte{2}, []byte{3}}}}), false},
		"long reason": {encode(t, Response{Code: 400, Reason: string(make([]byte, maxReason+1))}), false},
		"bad text":    {append(encode(t, map[int]any{0: 200, 3: "a"})[:5], 0x61, 0xff), false},
	} {
		if _, err := DecodeResponse(tc.p); (err == nil) != tc.ok || err != nil && status.Of(err) != status.Upstream {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErrorsCrossTheWire: what one side refuses, the other side gets.
func TestErrorsCrossTheWire(t *testing.T) {
	for r, want := range refusals {
		back := ErrorResponse(Refuse(r, errors.New("cause"))).Err()
		var re *RecordError
		if !errors.As(back, &re) || re.Refusal != r || status.Of(back) != want {
			t.Errorf("%s arrives as %v", r, back)
		}
	}
	for _, o := range status.All() {
		back := ErrorResponse(status.Errorf(o, "x")).Err()
		if o.Success() {
			continue // NotModified is no failure of this protocol
		}
		// Two outcomes share their label with a refusal.
		if got := status.Of(back); got != o && refusals[Refusal(o.String())] != got {
			t.Errorf("%s arrives as %s", o, got)
		}
	}
	if err := (Response{Code: 200}).Err(); err != nil {
		t.Error(err)
	}
	for reason, want := range map[string]status.Outcome{"": status.Busy, "new_thing": status.Busy, "ok": status.Busy} {
		if got := status.Of(Response{Code: 429, Reason: reason}.Err()); got != want {
			t.Errorf("429 %q is %s, want %s", reason, got, want)
		}
	}
}

// TestProviderResponseFits: the answer is never above the bound of the message, and
// always has room for closer peers.
func TestProviderResponseFits(t *testing.T) {
	big := Sealed{Envelope: make([]byte, MaxEnvelope), PeerRecord: make([]byte, MaxPeerRecord)}
	var infos []peer.AddrInfo
	for i := range 2 * MaxCloser {
		info := peer.AddrInfo{ID: newIdentity(t).id}
		for j := range 2 * MaxCloserAddrs {
			info.Addrs = append(
				info.Addrs,
				ma.StringCast(fmt.Sprintf("/ip6/2001:db8::%d/udp/%d/quic-v1/p2p/%s/p2p-circuit", i, j, info.ID)),
			)
		}
		infos = append(infos, info)
	}
	for _, n := range []int{0, 1, 5, 20, 40} {
		held := make([]Sealed, n)
		for i := range held {
			held[i] = big
		}
		r := ProviderResponse(held, infos)
		p := encode(t, r)
		if len(p) > MaxMessage {
			t.Errorf("%d records: %d bytes", n, len(p))
		}
		if n > 0 && len(r.Providers) == 0 || len(r.Closer) == 0 {
			t.Errorf("%d records: %d are in the answer, with %d closer peers", n, len(r.Providers), len(r.Closer))
		}
		back, err := DecodeResponse(p)
		if err != nil {
			t.Fatal(err)
		}
		for i, info := range back.CloserPeers() {
			if info.ID != infos[i].ID || len(info.Addrs) != MaxCloserAddrs || !info.Addrs[0].Equal(infos[i].Addrs[0]) {
				t.Errorf("peer %d arrives as %v", i, info)
			}
		}
	}
}

// TestCloserLeavesOutGarbage: one bad entry does not spoil an answer.
func TestCloserLeavesOutGarbage(t *testing.T) {
	id := newIdentity(t).id
	good := ma.StringCast("/ip4/192.0.2.1/tcp/1")
	r := Response{Closer: []Peer{
		{ID: []byte("not an id")},
		{ID: bytes.Repeat([]byte{0}, maxPeerID+1)},
		{ID: []byte(id), Addrs: [][]byte{{0xff, 0xff}, nil, make([]byte, maxAddr+1), good.Bytes()}},
	}}
	got := r.CloserPeers()
	if len(got) != 1 || got[0].ID != id || len(got[0].Addrs) != 1 || !got[0].Addrs[0].Equal(good) {
		t.Errorf("got %v", got)
	}
}

func FuzzRequest(f *testing.F) {
	rec := newIdentity(f).seal(f, root("x"), 1, time.Now().Add(time.Hour))
	f.Add(encode(f, Request{Op: OpGet, Key: root("x").Multihash()}))
	f.Add(encode(f, Request{Op: OpPut, Key: root("x").Multihash(), Envelope: rec.Envelope, PeerRecord: rec.PeerRecord}))
	named := newIdentity(f).nameRecord(f)
	key := named.Name.Digest()
	f.Add(encode(f, Request{Op: OpPutName, Key: key[:], Envelope: named.Envelope}))
	f.Add(encode(f, Request{Op: OpGetName, Key: key[:]}))
	f.Fuzz(func(t *testing.T, p []byte) {
		q, err := DecodeRequest(p)
		if err != nil {
			if o := status.Of(err); o == status.Internal || o.Success() {
				t.Fatalf("an untyped error: %v", err)
			}
			return
		}
		if again := encode(t, q); !bytes.Equal(p, again) {
			t.Fatalf("%x was accepted and encodes to %x", p, again)
		}
	})
}

func FuzzResponse(f *testing.F) {
	rec := newIdentity(f).seal(f, root("x"), 1, time.Now().Add(time.Hour))
	f.Add(encode(f, ProviderResponse([]Sealed{rec}, []peer.AddrInfo{{ID: rec.Provider, Addrs: rec.Addrs.Addrs}})))
	f.Add(encode(f, Response{Code: 200, Providers: []Provider{
		{Envelope: newIdentity(f).nameRecord(f).Envelope},
	}}))
	f.Add(encode(f, Response{Code: 429, Reason: "busy"}))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := DecodeResponse(p)
		if err != nil {
			return
		}
		if again := encode(t, r); !bytes.Equal(p, again) {
			t.Fatalf("%x was accepted and encodes to %x", p, again)
		}
		if len(r.CloserPeers()) > MaxCloser {
			t.Fatal("too many peers")
		}
		_ = r.Err()
	})
}
