package dht

import (
	"bytes"
	"crypto/rand"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"go.uber.org/goleak"

	"allium/protocols/b3"
	"allium/protocols/dht/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
func (i identity) seal(t testing.TB, root b3.Root, seq uint64, notAfter time.Time) messages.Sealed {
	t.Helper()
	s, err := messages.Seal(
		i.key,
		messages.Record{Root: root, Provider: i.id, Seq: seq, NotAfter: notAfter.Truncate(time.Second)},
		i.peerRecord(),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// own is seal, as the store has a record of this node itself.
func (i identity) own(t testing.TB, root b3.Root, seq uint64, notAfter time.Time) sourced {
	t.Helper()
	return sourced{Sealed: i.seal(t, root, seq, notAfter)}
}

func root(s string) b3.Root { return b3.Sum([]byte(s)) }
