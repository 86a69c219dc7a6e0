package hints

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"go.uber.org/goleak"

	"allium/protocols/b3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// identity is a key with its peer id.
type identity struct {
	key crypto.PrivKey
	id  peer.ID
}

// fixedIdentity is the n-th of those that are the same in every process.
func fixedIdentity(t testing.TB, n int) identity {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{byte(n), byte(n >> 8)}, 16)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{key, id}
}

// roots are the objects number from to to.
func roots(from, to int) []b3.Root {
	var out []b3.Root
	for i := from; i < to; i++ {
		out = append(out, root(i))
	}
	return out
}

func root(i int) b3.Root { return b3.Sum(fmt.Append(nil, "object ", i)) }

// make is an announcement, not signed.
func (i identity) make(batch, seq uint64, notAfter time.Time, of ...b3.Root) *announcement {
	return &announcement{
		slot: slot{i.id, batch}, seq: seq, notAfter: notAfter.Truncate(time.Second), roots: sorted(of),
		addrs: []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/4901")},
	}
}

// announce is a signed one.
func (i identity) announce(t testing.TB, batch, seq uint64, notAfter time.Time, of ...b3.Root) *announcement {
	t.Helper()
	a := i.make(batch, seq, notAfter, of...)
	if err := a.seal(i.key); err != nil {
		t.Fatal(err)
	}
	return a
}

// newTested is a service that does not run.
func newTested(t testing.TB, me identity) *Service {
	t.Helper()
	s, err := New(DefaultConfig(), Deps{
		Host: idleHost{id: me.id}, Key: me.key,
		Publish: func(context.Context, []byte) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// idleHost is a host without connections.
type idleHost struct {
	host.Host
	id peer.ID
}

func (h idleHost) ID() peer.ID { return h.id }

// Network implements host.Host.
func (h idleHost) Network() network.Network { return idleNetwork{} }

type idleNetwork struct{ network.Network }

// ConnsToPeer implements network.Network.
func (idleNetwork) ConnsToPeer(peer.ID) []network.Conn { return nil }
