package seeds

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"pgregory.net/rapid"

	"allium/protocols/record"
	"allium/protocols/status"
)

// now is when the tests of manifests happen.
var now = time.Now().Truncate(time.Second)

// authority is the number of the identity that signs.
const authority = 900

func manifestOf(seq uint64, life time.Duration, seeds []peer.AddrInfo) Manifest {
	return Manifest{Seq: seq, NotAfter: time.Now().Truncate(time.Second).Add(life), Seeds: seeds}
}

func sign(t testing.TB, m Manifest) []byte {
	t.Helper()
	key, _ := identity(t, authority)
	text, err := Sign(key, m)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sealBytes signs any payload as kind k and puts it into the block.
func sealBytes(t testing.TB, k record.Kind, payload []byte) []byte {
	t.Helper()
	key, _ := identity(t, authority)
	raw, err := k.Seal(key, payload)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: raw})
}

func mustMarshal(t testing.TB, r *peer.PeerRecord) []byte {
	t.Helper()
	p, err := r.MarshalRecord()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sealPayload(t testing.TB, w wireManifest) []byte {
	t.Helper()
	p, err := canonical.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return sealBytes(t, signed, p)
}

// TestManifestProperty: what is signed comes out as it went in, through mail
// too, and not after any bit of it was changed.
func TestManifestProperty(tt *testing.T) {
	_, signer := identity(tt, authority)
	pool := peers(tt, 0, 40)
	rapid.Check(tt, func(t *rapid.T) {
		m := Manifest{
			Seq:      rapid.Uint64().Draw(t, "seq"),
			NotAfter: now.Add(time.Duration(rapid.IntRange(1, int(MaxLife/time.Second)).Draw(t, "life")) * time.Second),
		}
		for _, s := range rapid.SliceOfNDistinct(
			rapid.SampledFrom(pool), 1, 40, func(p peer.AddrInfo) peer.ID { return p.ID },
		).Draw(t, "seeds") {
			addrs := []ma.Multiaddr{}
			for _, port := range rapid.SliceOfNDistinct(rapid.IntRange(1, 65535), 1, maxSeedAddrs,
				rapid.ID).Draw(t, "ports") {
				addrs = append(addrs, ma.StringCast(fmt.Sprintf("/dns/seed.example/udp/%d/quic-v1", port)))
			}
			m.Seeds = append(m.Seeds, peer.AddrInfo{ID: s.ID, Addrs: addrs})
		}
		key, _ := identity(tt, authority)
		text, err := Sign(key, m)
		if err != nil {
			t.Fatal(err)
		}
		mailed := bytes.ReplaceAll(text, []byte("\n"), []byte(" \r\n"))
		for _, text := range [][]byte{text, mailed, append([]byte("\n\n"), text...)} {
			got, by, err := Open(text, []peer.ID{"other", signer}, now)
			if err != nil || by != signer || !reflect.DeepEqual(got, m) {
				t.Fatalf("got %v by %s, %v; want %v", got, by, err, m)
			}
		}
		block, _ := pem.Decode(text)
		block.Bytes[rapid.IntRange(0, len(block.Bytes)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, _, err := Open(pem.EncodeToMemory(block), []peer.ID{signer}, now); err == nil {
			t.Fatalf("a changed manifest holds: %v", got)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	_, signer := identity(t, authority)
	good := manifestOf(7, time.Hour, peers(t, 0, 2))
	text := sign(t, good)
	wire := wireManifest{Seq: 7, NotAfter: uint64(now.Add(time.Hour).Unix())}
	for _, s := range good.Seeds {
		wire.Seeds = append(wire.Seeds, wireSeed{[]byte(s.ID), addrBytes(s.Addrs)})
	}
	spoiled := func(spoil func(*wireManifest)) []byte {
		w := wire
		w.Seeds = append([]wireSeed(nil), wire.Seeds...)
		spoil(&w)
		return sealPayload(t, w)
	}
	if _, _, err := Open(spoiled(func(*wireManifest) {}), []peer.ID{signer}, now); err != nil {
		t.Fatal(err) // else the ones below would prove nothing
	}
	payload, err := encode(good)
	if err != nil {
		t.Fatal(err)
	}
	seedPeer := peers(t, 5, 6)[0]
	withID, err := peer.AddrInfoToP2pAddrs(&seedPeer)
	if err != nil {
		t.Fatal(err)
	}
	other := peer.PeerRecordFromAddrInfo(seedPeer)
	for name, c := range map[string]struct {
		raw  []byte
		want status.Outcome
	}{
		"empty":         {nil, status.BadFrame},
		"not a block":   {[]byte("hello"), status.BadFrame},
		"another block": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}), status.BadFrame},
		"a header": {
			pem.EncodeToMemory(&pem.Block{Type: blockType, Headers: map[string]string{"Seq": "9"}, Bytes: []byte{1}}),
			status.BadFrame,
		},
		"text before": {append([]byte("the seeds of example.org:\n"), text...), status.BadFrame},
		"text after":  {append(bytes.Clone(text), "trust me"...), status.BadFrame},
		"two blocks":  {append(bytes.Clone(text), text...), status.BadFrame},
		"cut":         {text[:len(text)-10], status.BadFrame},
		"long":        {bytes.Repeat([]byte("x"), maxText+1), status.BodyCap},
		"long inside": {
			pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: make([]byte, maxEnvelope+1)}), status.BodyCap,
		},
		"no envelope":       {pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: payload}), status.BadSignature},
		"nothing":           {pem.EncodeToMemory(&pem.Block{Type: blockType}), status.BadSignature},
		"of something else": {sealBytes(t, record.KindLike(other), mustMarshal(t, other)), status.BadSignature},
		"no cbor":           {sealBytes(t, signed, []byte("x")), status.BadRequest},
		"not canonical": {
			sealBytes(t, signed, append(bytes.Clone(payload[:1]), append([]byte{0x01, 0x18, 7}, payload[3:]...)...)),
			status.BadRequest,
		},
		"no seeds":       {spoiled(func(w *wireManifest) { w.Seeds = nil }), status.BadRequest},
		"too many seeds": {spoiled(func(w *wireManifest) { w.Seeds = wireSeeds(t, maxSeeds+1, 1) }), status.BadRequest},
		"a seed twice":   {spoiled(func(w *wireManifest) { w.Seeds[1] = w.Seeds[0] }), status.BadRequest},
		"no id":          {spoiled(func(w *wireManifest) { w.Seeds[0].ID = nil }), status.BadRequest},
		"a long id": {
			spoiled(func(w *wireManifest) { w.Seeds[0].ID = make([]byte, maxPeerID+1) }), status.BadRequest,
		},
		"no address":       {spoiled(func(w *wireManifest) { w.Seeds[0].Addrs = nil }), status.BadRequest},
		"an empty address": {spoiled(func(w *wireManifest) { w.Seeds[0].Addrs = [][]byte{{}} }), status.BadRequest},
		"an address twice": {spoiled(func(w *wireManifest) {
			w.Seeds[0].Addrs = append(w.Seeds[0].Addrs[:1:1], w.Seeds[0].Addrs[0])
		}), status.BadRequest},
		"too many addresses": {
			spoiled(func(w *wireManifest) { w.Seeds[0].Addrs = wireSeeds(t, 1, maxSeedAddrs+1)[0].Addrs }),
			status.BadRequest,
		},
		"a long address": {
			spoiled(func(w *wireManifest) { w.Seeds[0].Addrs = [][]byte{make([]byte, maxAddr+1)} }), status.BadRequest,
		},
		"an address with id": {
			spoiled(func(w *wireManifest) { w.Seeds[0].Addrs = [][]byte{withID[0].Bytes()} }), status.BadRequest,
		},
		"longer than a year": {
			spoiled(func(w *wireManifest) { w.NotAfter = uint64(now.Add(MaxLife + clockSkew + time.Minute).Unix()) }),
			status.BadRequest,
		},
		"the end of all times": {spoiled(func(w *wireManifest) { w.NotAfter = 1 << 63 }), status.BadRequest},
	} {
		m, by, err := Open(c.raw, []peer.ID{signer}, now)
		if status.Of(err) != c.want || by != "" || m.Seq != 0 {
			t.Errorf("%s: got %v by %q and %v (%s), want %s", name, m, by, err, status.Of(err), c.want)
		}
	}

	if _, by, err := Open(text, []peer.ID{"other"}, now); status.Of(err) != status.BadSignature || by != "" ||
		!strings.Contains(err.Error(), signer.String()) {
		t.Errorf("an untrusted signer: %q, %v", by, err)
	}
	if m, by, err := Open(text, []peer.ID{signer}, good.NotAfter); status.Of(err) != status.Stale || by != signer ||
		!reflect.DeepEqual(m, good) {
		t.Errorf("expired: %v by %q, %v", m, by, err)
	}
	if m, by, err := Verify(text); err != nil || by != signer || !reflect.DeepEqual(m, good) {
		t.Errorf("Verify: %v by %q, %v", m, by, err)
	}
}

// wireSeeds is n seeds with that many addresses each.
func wireSeeds(t testing.TB, n, addrs int) (ws []wireSeed) {
	for _, p := range peers(t, 0, n) {
		w := wireSeed{ID: []byte(p.ID)}
		for i := range addrs {
			w.Addrs = append(w.Addrs, ma.StringCast(fmt.Sprintf("/ip6/2001:db8::%x/udp/%d/quic-v1", i+1, i+1)).Bytes())
		}
		ws = append(ws, w)
	}
	return ws
}

func TestSignRefuses(t *testing.T) {
	key, _ := identity(t, authority)
	many := peers(t, 0, maxSeeds)
	for i := range many {
		many[i].Addrs = nil
		for n := range maxSeedAddrs {
			many[i].Addrs = append(many[i].Addrs, ma.StringCast(fmt.Sprintf("/dns/seed-%d.example.org/tcp/%d", i, n+1)))
		}
	}
	for name, c := range map[string]struct {
		m    Manifest
		want status.Outcome
	}{
		"no seeds":  {manifestOf(1, time.Hour, nil), status.BadRequest},
		"two years": {manifestOf(1, 2*MaxLife, peers(t, 0, 1)), status.BadRequest},
		"no end":    {Manifest{Seq: 1, Seeds: peers(t, 0, 1)}, status.BadRequest},
		"too large": {manifestOf(1, time.Hour, many), status.BodyCap},
	} {
		if _, err := Sign(key, c.m); status.Of(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := Sign(key, manifestOf(1, time.Hour, peers(t, 0, maxSeeds))); err != nil {
		t.Errorf("256 seeds with one address each: %v", err)
	}
}

// FuzzOpen: nothing panics, every refusal is typed, and what holds is what
// Sign makes of it.
func FuzzOpen(f *testing.F) {
	key, signer := identity(f, authority)
	text := sign(f, manifestOf(7, time.Hour, peers(f, 0, 2)))
	block, _ := pem.Decode(text)
	f.Add(text)
	f.Add(block.Bytes)
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, text := range [][]byte{p, pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: p})} {
			m, _, err := Open(text, []peer.ID{signer}, time.Now())
			switch status.Of(err) {
			case status.BodyCap, status.BadFrame, status.BadSignature, status.BadRequest, status.Stale:
			case status.OK:
				if again, err := Sign(key, m); err != nil || len(again) == 0 {
					t.Fatalf("it holds, but cannot be signed: %v", err)
				}
			default:
				t.Fatalf("an error without a type: %v", err)
			}
		}
	})
}

// FuzzDecode gives the payload, which only an authority can sign, the same
// treatment.
func FuzzDecode(f *testing.F) {
	p, err := encode(manifestOf(7, time.Hour, peers(f, 0, 2)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := decode(p)
		if err != nil {
			return
		}
		if again, err := encode(m); err != nil || !bytes.Equal(again, p) {
			t.Fatalf("%x decodes to %v, which is %x (%v)", p, m, again, err)
		}
	})
}
