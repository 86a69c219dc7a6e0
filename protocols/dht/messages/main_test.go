package messages

import (
	"bytes"
	"crypto/rand"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/name"
)

// identity is a key with its peer id.
type identity struct {
	key crypto.PrivKey
	id  peer.ID
}

func newIdentity(t testing.TB) identity {
	t.Helper()
	return identityFrom(t, rand.Reader)
}

// fixedIdentity is the same in every process: the fuzzer has several.
func fixedIdentity(t testing.TB) identity {
	t.Helper()
	return identityFrom(t, bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
}

func identityFrom(t testing.TB, r io.Reader) identity {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(r)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{key, id}
}

func (i identity) peerRecord() *peer.PeerRecord {
	return peer.PeerRecordFromAddrInfo(
		peer.AddrInfo{ID: i.id, Addrs: []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/4901")}},
	)
}

// seal signs a record that is valid until notAfter.
func (i identity) seal(t testing.TB, root b3.Root, seq uint64, notAfter time.Time) Sealed {
	t.Helper()
	r := Record{Root: root, Provider: i.id, Seq: seq, NotAfter: notAfter.Truncate(time.Second)}
	s, err := Seal(i.key, r, i.peerRecord())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nameRecord signs an empty record of the name "blog".
func (i identity) nameRecord(t testing.TB) name.Signed {
	t.Helper()
	zone, err := name.ZoneOf(i.key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	label, err := name.ParseLabel("blog")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r, err := name.Sign(i.key, name.Record{
		Name: name.Name{Label: label, Zone: zone}, Seq: 1,
		NotAfter: now.Add(name.DefaultLife).Truncate(time.Second).UTC(), TTL: name.DefaultTTL,
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func root(s string) b3.Root { return b3.Sum([]byte(s)) }
