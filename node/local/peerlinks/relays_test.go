package peerlinks

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/host"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/status"
)

// listening is a host that says where it listens.
type listening struct {
	host.Host
	addrs []string
}

func (h listening) Addrs() (all []ma.Multiaddr) {
	for _, a := range h.addrs {
		all = append(all, ma.StringCast(a))
	}
	return all
}

// TestRelays: a host names each of its relays once.
func TestRelays(t *testing.T) {
	t.Parallel()
	const a = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
	const b = "12D3KooWA5geUFjtNendjSP4BWTMNHMHPUGr3q7bqSASZafV9hX7"
	got, err := Relays(listening{addrs: []string{
		"/ip4/8.8.8.8/tcp/4001", "/ip4/9.9.9.9/tcp/1/p2p/" + a + "/p2p-circuit",
		"/ip4/9.9.9.9/udp/1/quic-v1/p2p/" + a + "/p2p-circuit", "/ip4/9.9.9.8/tcp/1/p2p/" + b + "/p2p-circuit",
	}})
	if err != nil || len(got) != 2 || got[0].String() != a || got[1].String() != b {
		t.Errorf("the relays are %v", got)
	}
	got, err = Relays(listening{addrs: []string{"/ip4/8.8.8.8/tcp/4001"}})
	if len(got) != 0 || status.Of(err) != status.NotFound {
		t.Errorf("without a relay: %v, %v", got, err)
	}
}
