package dht

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
		"get": {request{Op: opGet, Key: key}, "a2" + "0002" + "015822" + hex.EncodeToString(key)},
		"put": {
			request{Op: opPut, Key: key, Envelope: []byte{1}, PeerRecord: []byte{2}},
			"a4" + "0001" + "015822" + hex.EncodeToString(key) + "024101" + "034102",
		},
		"ok":      {response{Code: 200}, "a1" + "0018c8"},
		"refusal": {response{Code: 422, Reason: "stale"}, "a2" + "001901a6" + "03657374616c65"},
		"provider": {
			response{Code: 200, Providers: []wireProvider{{Envelope: []byte{1}, PeerRecord: []byte{2}}}},
			"a2" + "0018c8" + "0181" + "8241014102",
		},
		"closer": {
			response{Code: 200, Closer: []wirePeer{{ID: []byte{1}, Addrs: [][]byte{{4}}}}},
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
		{"get", encode(t, request{Op: opGet, Key: key}), status.OK},
		{"put", encode(t, request{Op: opPut, Key: key, Envelope: rec.envelope, PeerRecord: rec.peerRecord}), status.OK},
		{"empty", nil, status.BadRequest},
		{"garbage", []byte("GET / HTTP/1.1\r\n"), status.BadRequest},
		{"trailing", append(encode(t, request{Op: opGet, Key: key}), 0), status.BadRequest},
		{"unknown member", encode(t, map[int]any{0: opGet, 1: key, 9: 1}), status.BadRequest},
		{
			"duplicate member",
			append([]byte{0xa3, 0, 2}, append(encode(t, map[int]any{1: key})[1:], 0, 2)...),
			status.BadRequest,
		},
		{"explicit default", encode(t, map[int]any{0: opGet, 1: key, 2: []byte{}}), status.BadRequest},
		{"get with a record", encode(t, request{Op: opGet, Key: key, Envelope: rec.envelope}), status.BadRequest},
		{"no key", encode(t, request{Op: opGet}), status.BadAddress},
		{"null key", encode(t, map[int]any{0: opGet, 1: nil}), status.BadRequest},
		{
			"key of another hash",
			encode(t, request{Op: opGet, Key: append([]byte{0x12, 0x20}, key[2:]...)}),
			status.BadAddress,
		},
		{"short key", encode(t, request{Op: opGet, Key: key[:33]}), status.BadAddress},
		{"long key", encode(t, request{Op: opGet, Key: append(bytes.Clone(key), 0)}), status.BadAddress},
		{"operation", encode(t, request{Op: 5, Key: key}), status.Unsupported},
		{"put without a record", encode(t, request{Op: opPut, Key: key}), status.BadSignature},
		{"put without a peer record", encode(t, request{Op: opPut, Key: key, Envelope: rec.envelope}), status.BadSignature},
		{
			"large record",
			encode(t, request{Op: opPut, Key: key, Envelope: make([]byte, maxEnvelope+1), PeerRecord: rec.peerRecord}),
			status.BodyCap,
		},
		{
			"large peer record",
			encode(t, request{Op: opPut, Key: key, Envelope: rec.envelope, PeerRecord: make([]byte, maxPeerRecord+1)}),
			status.BodyCap,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, err := decodeRequest(tc.p)
			if got := status.Of(err); got != tc.want {
				t.Fatalf("got %s (%v), want %s", got, err, tc.want)
			}
			if err == nil && q.root != root("x") {
				t.Errorf("the key is %s", q.root)
			}
		})
	}
}

func TestDecodeResponse(t *testing.T) {
	many := func(n int) (ps []wireProvider) {
		for range n {
			ps = append(ps, wireProvider{Envelope: []byte{1}, PeerRecord: []byte{2}})
		}
		return ps
	}
	addrs := func(n int) [][]byte { return append([][]byte{}, make([][]byte, n)...) }
	full := wirePeer{ID: []byte{1}}
	for range maxCloserAddrs {
		full.Addrs = append(full.Addrs, []byte{4})
	}
	for name, tc := range map[string]struct {
		p  []byte
		ok bool
	}{
		"plain":            {encode(t, response{Code: 200}), true},
		"most records":     {encode(t, response{Code: 200, Providers: many(maxProviders)}), true},
		"most addresses":   {encode(t, response{Code: 200, Closer: []wirePeer{full}}), true},
		"empty":            {nil, false},
		"no code":          {encode(t, response{}), false},
		"large code":       {encode(t, response{Code: 1 << 40}), false},
		"too many records": {encode(t, response{Code: 200, Providers: many(maxProviders + 1)}), false},
		"too many peers":   {encode(t, response{Code: 200, Closer: make([]wirePeer, maxCloser+1)}), false},
		"too many addresses": {
			encode(t, response{Code: 200, Closer: []wirePeer{{ID: []byte{1}, Addrs: addrs(maxCloserAddrs + 1)}}}),
			false,
		},
		"short pair":  {encode(t, map[int]any{0: 200, 1: [][]any{{[]byte{1}}}}), false},
		"long pair":   {encode(t, map[int]any{0: 200, 1: [][]any{{[]byte{1}, []byte{2}, []byte{3}}}}), false},
		"long reason": {encode(t, response{Code: 400, Reason: string(make([]byte, maxReason+1))}), false},
		"bad text":    {append(encode(t, map[int]any{0: 200, 3: "a"})[:5], 0x61, 0xff), false},
	} {
		if _, err := decodeResponse(tc.p); (err == nil) != tc.ok || err != nil && status.Of(err) != status.Upstream {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErrorsCrossTheWire: what one side refuses, the other side gets.
func TestErrorsCrossTheWire(t *testing.T) {
	for r, want := range refusals {
		back := errorResponse(refuse(r, errors.New("cause"))).err()
		var re *RecordError
		if !errors.As(back, &re) || re.Refusal != r || status.Of(back) != want {
			t.Errorf("%s arrives as %v", r, back)
		}
	}
	for _, o := range status.All() {
		back := errorResponse(status.Errorf(o, "x")).err()
		if o.Success() {
			continue // NotModified is no failure of this protocol
		}
		// Two outcomes share their label with a refusal.
		if got := status.Of(back); got != o && refusals[Refusal(o.String())] != got {
			t.Errorf("%s arrives as %s", o, got)
		}
	}
	if err := (response{Code: 200}).err(); err != nil {
		t.Error(err)
	}
	for reason, want := range map[string]status.Outcome{"": status.Busy, "new_thing": status.Busy, "ok": status.Busy} {
		if got := status.Of(response{Code: 429, Reason: reason}.err()); got != want {
			t.Errorf("429 %q is %s, want %s", reason, got, want)
		}
	}
}

// TestGetResponseFits: the answer is never above the bound of the message, and
// always has room for closer peers.
func TestGetResponseFits(t *testing.T) {
	big := sealed{envelope: make([]byte, maxEnvelope), peerRecord: make([]byte, maxPeerRecord)}
	var infos []peer.AddrInfo
	for i := range 2 * maxCloser {
		info := peer.AddrInfo{ID: newIdentity(t).id}
		for j := range 2 * maxCloserAddrs {
			info.Addrs = append(
				info.Addrs,
				ma.StringCast(fmt.Sprintf("/ip6/2001:db8::%d/udp/%d/quic-v1/p2p/%s/p2p-circuit", i, j, info.ID)),
			)
		}
		infos = append(infos, info)
	}
	for _, n := range []int{0, 1, 5, 20, 40} {
		held := make([]sealed, n)
		for i := range held {
			held[i] = big
		}
		r := getResponse(held, infos)
		p := encode(t, r)
		if len(p) > maxMessage {
			t.Errorf("%d records: %d bytes", n, len(p))
		}
		if n > 0 && len(r.Providers) == 0 || len(r.Closer) == 0 {
			t.Errorf("%d records: %d are in the answer, with %d closer peers", n, len(r.Providers), len(r.Closer))
		}
		back, err := decodeResponse(p)
		if err != nil {
			t.Fatal(err)
		}
		for i, info := range back.closer() {
			if info.ID != infos[i].ID || len(info.Addrs) != maxCloserAddrs || !info.Addrs[0].Equal(infos[i].Addrs[0]) {
				t.Errorf("peer %d arrives as %v", i, info)
			}
		}
	}
}

// TestCloserLeavesOutGarbage: one bad entry does not spoil an answer.
func TestCloserLeavesOutGarbage(t *testing.T) {
	id := newIdentity(t).id
	good := ma.StringCast("/ip4/192.0.2.1/tcp/1")
	r := response{Closer: []wirePeer{
		{ID: []byte("not an id")},
		{ID: bytes.Repeat([]byte{0}, maxPeerID+1)},
		{ID: []byte(id), Addrs: [][]byte{{0xff, 0xff}, nil, make([]byte, maxAddr+1), good.Bytes()}},
	}}
	got := r.closer()
	if len(got) != 1 || got[0].ID != id || len(got[0].Addrs) != 1 || !got[0].Addrs[0].Equal(good) {
		t.Errorf("got %v", got)
	}
}

func FuzzRequest(f *testing.F) {
	rec := newIdentity(f).seal(f, root("x"), 1, time.Now().Add(time.Hour))
	f.Add(encode(f, request{Op: opGet, Key: root("x").Multihash()}))
	f.Add(encode(f, request{Op: opPut, Key: root("x").Multihash(), Envelope: rec.envelope, PeerRecord: rec.peerRecord}))
	named := newIdentity(f).nameRecord(f, "blog", 1, "text")
	key := named.Name.Digest()
	f.Add(encode(f, request{Op: opPutName, Key: key[:], Envelope: named.Envelope}))
	f.Add(encode(f, request{Op: opGetName, Key: key[:]}))
	f.Fuzz(func(t *testing.T, p []byte) {
		q, err := decodeRequest(p)
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
	f.Add(encode(f, getResponse([]sealed{rec}, []peer.AddrInfo{{ID: rec.Provider, Addrs: rec.addrs.Addrs}})))
	f.Add(encode(f, response{Code: 200, Providers: []wireProvider{
		{Envelope: newIdentity(f).nameRecord(f, "blog", 1, "text").Envelope},
	}}))
	f.Add(encode(f, response{Code: 429, Reason: "busy"}))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := decodeResponse(p)
		if err != nil {
			return
		}
		if again := encode(t, r); !bytes.Equal(p, again) {
			t.Fatalf("%x was accepted and encodes to %x", p, again)
		}
		if len(r.closer()) > maxCloser {
			t.Fatal("too many peers")
		}
		_ = r.err()
	})
}
