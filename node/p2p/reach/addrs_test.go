package reach

import (
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

const relayID = "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"

func addrs(t *testing.T, texts ...string) (all []ma.Multiaddr) {
	t.Helper()
	for _, s := range texts {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func wantAddrs(t *testing.T, title string, got, want []ma.Multiaddr) {
	t.Helper()
	if !slices.EqualFunc(ma.Unique(slices.Clone(got)), ma.Unique(slices.Clone(want)), ma.Multiaddr.Equal) {
		t.Errorf("%s: %v, want %v", title, got, want)
	}
}

func TestAnnounced(t *testing.T) {
	t.Parallel()
	const (
		loop, lan, own, seen = "/ip4/127.0.0.1/tcp/1", "/ip4/192.168.1.7/tcp/1",
			"/ip4/8.8.8.8/tcp/1", "/ip4/9.9.9.9/tcp/7"
		relay     = "/ip4/1.1.1.1/tcp/1/p2p/" + relayID + "/p2p-circuit"
		lanRelay  = "/ip4/192.168.1.9/tcp/1/p2p/" + relayID + "/p2p-circuit"
		forwarded = "/dns4/home.example.org/tcp/4901"
	)
	all := func(texts ...string) []ma.Multiaddr { return addrs(t, texts...) }
	for title, c := range map[string]struct {
		v      view
		all    []ma.Multiaddr
		always []ma.Multiaddr
		want   []ma.Multiaddr
	}{
		"no Internet":           {view{}, all(loop, lan), nil, all(loop, lan)},
		"a LAN with a relay":    {view{relayed: all(lanRelay)}, all(lan), nil, all(lan, lanRelay)},
		"behind a router":       {view{internet: true}, all(loop, lan), nil, nil},
		"a relay":               {view{relayed: all(relay)}, all(lan), nil, all(relay)},
		"an own public address": {view{own: all(own)}, all(loop, lan, own), nil, all(own)},
		"seen, not confirmed":   {view{internet: true}, all(lan, seen), nil, nil},
		"seen and confirmed": {view{reachable: all(seen), relayed: all(relay)}, all(lan,
			seen), nil, all(seen, relay)},
		"the library's relay":    {view{own: all(own)}, all(own, relay), nil, all(own)},
		"a forwarded port":       {view{}, all(loop, lan), all(forwarded), all(forwarded)},
		"forwarded and its own":  {view{own: all(own)}, all(own), all(own), all(own)},
		"own, found unreachable": {view{own: all(own), relayed: all(relay)}, all(lan), nil, all(relay)},
	} {
		wantAddrs(t, title, c.v.announced(c.all, c.always), c.want)
	}
}

// TestThrough: what a relay says of itself is announced only as far as it is of use, and bounded.
func TestThrough(t *testing.T) {
	t.Parallel()
	id, err := peer.Decode(relayID)
	if err != nil {
		t.Fatal(err)
	}
	const at, lanAt = "/ip4/1.1.1.1/udp/4901/quic-v1", "/ip4/192.168.1.9/tcp/1"
	circuit := func(texts ...string) (all []ma.Multiaddr) {
		for _, s := range texts {
			all = append(all, addrs(t, s+"/p2p/"+relayID+"/p2p-circuit")...)
		}
		return all
	}
	many := []string{at}
	for _, port := range []string{"1", "2", "3", "4", "5", "6"} {
		many = append(many, "/ip4/7.7.7.7/tcp/"+port)
	}
	for title, c := range map[string]struct {
		at   string
		said []string
		want []ma.Multiaddr
	}{
		"its own":          {at, []string{at, "/ip4/1.1.1.1/tcp/4901"}, circuit(at, "/ip4/1.1.1.1/tcp/4901")},
		"with its id":      {at, []string{at + "/p2p/" + relayID}, circuit(at)},
		"of another peer":  {at, []string{at + "/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK"}, nil},
		"a second family":  {at, []string{"/ip6/2a00::1/tcp/1"}, circuit("/ip6/2a00::1/tcp/1")},
		"private":          {at, []string{"/ip4/10.0.0.1/tcp/1", "/ip4/127.0.0.1/tcp/1"}, nil},
		"a relay's relay":  {at, []string{at + "/p2p/" + relayID + "/p2p-circuit"}, nil},
		"for browsers":     {at, []string{at + "/webtransport"}, nil},
		"a LAN's relay":    {lanAt, []string{lanAt, "/ip4/1.1.1.1/tcp/1"}, circuit(lanAt)},
		"nothing":          {at, nil, nil},
		"no port":          {at, []string{"/ip4/1.1.1.1"}, nil},
		"the nearest four": {at, many, circuit(at, "/ip4/7.7.7.7/tcp/1", "/ip4/7.7.7.7/tcp/2", "/ip4/7.7.7.7/tcp/3")},
	} {
		wantAddrs(t, title, through(id, addrs(t, c.said...), addrs(t, c.at)[0]), c.want)
	}
}
