package dht

import (
	"slices"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/testkit"
	"allium/protocols/dht/messages"
	"allium/protocols/name"
)

// connFrom is the connection of a peer that comes from addr.
type connFrom struct {
	network.Conn
	id   peer.ID
	addr ma.Multiaddr
}

func (c connFrom) RemotePeer() peer.ID           { return c.id }
func (c connFrom) RemoteMultiaddr() ma.Multiaddr { return c.addr }

// TestOutsidersAreToldPublicAddresses: a peer from outside is told no private address of another,
// by the provider exchange and by kad-dht's protocol, of the peer that it names or of closer ones.
// One from inside and one of a private network are told all but what belongs to an ignored peer.
func TestOutsidersAreToldPublicAddresses(t *testing.T) {
	for _, private := range []bool{false, true} {
		checkOutsiders(t, private)
	}
}

func checkOutsiders(t *testing.T, privateNetwork bool) {
	t.Helper()
	nodes := startNetworkIn(t, privateNetwork, 4)
	s, mixed, ignored := nodes[0], nodes[1].id, nodes[2].id
	testkit.Eventually(t, "kad-dht's table", func() bool { return s.lookups.current().kad.RoutingTable().Size() == 3 })
	private := ma.StringCast("/ip4/192.168.7.7/tcp/7")
	public := ma.StringCast("/ip4/45.1.2.3/tcp/7")
	s.host.Peerstore().AddAddrs(mixed, []ma.Multiaddr{private, public}, time.Hour)
	s.host.Peerstore().AddAddrs(ignored, []ma.Multiaddr{public}, time.Hour)
	s.ignored.Store(&ignored)
	asker := newIdentity(t)
	of := asker.nameRecord(t, "blog", 1, "one")
	key := of.Name.Digest()
	getName := messages.Request{Op: messages.OpGetName, Key: key[:]}
	get := messages.Request{Op: messages.OpGet, Key: root("x").Multihash()}
	told := func(c network.Conn, q messages.Request) []peer.AddrInfo {
		p, err := q.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r, _ := s.lookups.current().server.serve(t.Context(), c, p)
		return r.CloserPeers()
	}
	kad := func(c network.Conn, kind pb.Message_MessageType, key []byte) []peer.AddrInfo {
		var infos []peer.AddrInfo
		for _, p := range pb.PBPeersToPeerInfos(s.kad.answer(c, pb.NewMessage(kind, key, 0)).GetCloserPeers()) {
			infos = append(infos, *p)
		}
		return infos
	}
	find := func(key []byte) func(network.Conn) []peer.AddrInfo {
		return func(c network.Conn) []peer.AddrInfo { return kad(c, pb.Message_FIND_NODE, key) }
	}
	asks := map[string]func(network.Conn) []peer.AddrInfo{
		"get":      func(c network.Conn) []peer.AddrInfo { return told(c, get) },
		"get_name": func(c network.Conn) []peer.AddrInfo { return told(c, getName) },
		"GET_PROVIDERS": func(c network.Conn) []peer.AddrInfo {
			return kad(c, pb.Message_GET_PROVIDERS, root("x").Multihash())
		},
		"FIND_NODE":                    find([]byte(name.KeyOf(key))),
		"FIND_NODE of it":              find([]byte(mixed)),
		"FIND_NODE of an ignored peer": find([]byte(ignored)),
		"FIND_NODE of the asked one":   find([]byte(s.id)),
	}
	for _, from := range []struct {
		addr           string
		private, wants bool // of a private network; whether it is told the private address
	}{
		{addr: "/ip4/45.9.9.9/tcp/9"},
		{addr: "/ip6/2a00:1450::9/udp/9/quic-v1"},
		{addr: "/ip4/192.168.7.1/tcp/9/p2p/" + nodes[3].id.String() + "/p2p-circuit"},
		{addr: "/ip4/192.168.7.9/tcp/9", wants: true},
		{addr: "/ip6/fe80::9/tcp/9", wants: true},
		{addr: "/ip4/45.9.9.9/tcp/9", private: true, wants: true},
	} {
		if from.private != privateNetwork {
			continue
		}
		for ask, f := range asks {
			infos := f(connFrom{id: asker.id, addr: ma.StringCast(from.addr)})
			at := slices.IndexFunc(infos, func(i peer.AddrInfo) bool { return i.ID == mixed })
			if at < 0 || !slices.ContainsFunc(infos[at].Addrs, public.Equal) {
				t.Fatalf("%s from %s: %v", ask, from.addr, infos)
			}
			if slices.ContainsFunc(infos[at].Addrs, private.Equal) != from.wants {
				t.Errorf("%s from %s: told %v", ask, from.addr, infos[at].Addrs)
			}
			if ask == "FIND_NODE of it" && at != 0 {
				t.Errorf("%s from %s: the named peer comes at %d", ask, from.addr, at)
			}
			for _, i := range infos {
				if i.ID == ignored || i.ID == asker.id {
					t.Errorf("%s from %s: names %s", ask, from.addr, i.ID)
				}
				for _, a := range i.Addrs {
					if !from.wants && !manet.IsPublicAddr(a) {
						t.Errorf("%s from %s: told %s", ask, from.addr, a)
					}
				}
			}
		}
	}
}
