package dht

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/libp2p/go-libp2p"
	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/delimited"
	"allium/protocols/dht/messages"
)

// TestStockClientFindsProviders: kad-dht's own client, which knows nothing of the
// provider exchange, finds who provides an object, and of an object that is
// denied or that nobody has it finds nobody.
func TestStockClientFindsProviders(t *testing.T) {
	nodes := startNetwork(t, 4)
	x, denied := root("an object"), root("denied")
	if _, err := nodes[1].Provide(t.Context(), x, denied); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		n.lookups.mu.Lock()
		n.lookups.running.server.filter = &filter{root: denied}
		n.lookups.mu.Unlock()
	}
	h, err := libp2p.New(libp2p.NoListenAddrs, libp2p.DisableMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	stock, err := kaddht.New(h, kaddht.ProtocolPrefix(Prefix), kaddht.Mode(kaddht.ModeClient),
		kaddht.DisableAutoRefresh(),
		kaddht.AddressFilter(func(as []ma.Multiaddr) []ma.Multiaddr { return as }))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	seed := peer.AddrInfo{ID: nodes[0].host.ID(), Addrs: nodes[0].host.Addrs()}
	if err := h.Connect(t.Context(), seed); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the client's table", func() bool { return stock.RoutingTable().Size() > 0 })
	find := func(r b3.Root) []peer.AddrInfo {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		found, err := stock.FindProviders(ctx, cid.NewCidV1(cid.Raw, r.Multihash()))
		if err != nil && len(found) == 0 && !errors.Is(err, context.Canceled) {
			t.Log(err)
		}
		return found
	}
	if got := find(x); len(got) != 1 || got[0].ID != nodes[1].id || len(got[0].Addrs) == 0 {
		t.Errorf("found %v, want %s", got, nodes[1].id)
	}
	for _, r := range []b3.Root{denied, root("nobody's")} {
		if got := find(r); len(got) != 0 {
			t.Errorf("found %v", got)
		}
	}

	// One stream serves all kinds of messages, in their order.
	s, err := h.NewStream(t.Context(), seed.ID, KadID)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in := bufio.NewReader(s)
	key := x.Multihash()
	for i, kind := range []pb.Message_MessageType{
		pb.Message_FIND_NODE, pb.Message_GET_PROVIDERS, pb.Message_GET_PROVIDERS, pb.Message_FIND_NODE, pb.Message_PING,
	} {
		raw, err := proto.Marshal(pb.NewMessage(kind, key, 0))
		if err != nil {
			t.Fatal(err)
		}
		if err := delimited.Write(s, raw); err != nil {
			t.Fatal(err)
		}
		if raw, err = delimited.Read(in, maxKadMessage); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		var a pb.Message
		if err := proto.Unmarshal(raw, &a); err != nil || a.GetType() != kind ||
			(len(a.GetProviderPeers()) == 1) != (kind == pb.Message_GET_PROVIDERS) {
			t.Errorf("message %d: %v, %v", i, &a, err)
		}
		if kind != pb.Message_PING && len(a.GetCloserPeers()) == 0 {
			t.Errorf("message %d names no closer peers", i)
		}
	}
}

// TestStockServerNamesTarget: kad-dht's own server answers FIND_NODE with the target before the k closest, though
// the target is no server; all of them are accepted, and not one more.
func TestStockServerNamesTarget(t *testing.T) {
	n := startNetwork(t, 2)[0]
	h, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	stock, err := kaddht.New(h, kaddht.ProtocolPrefix(Prefix), kaddht.Mode(kaddht.ModeServer),
		kaddht.DisableAutoRefresh())
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	others := make([]peer.ID, 400)
	for i := range others {
		others[i] = newIdentity(t).id
		h.Peerstore().AddAddr(others[i], ma.StringCast(fmt.Sprintf("/ip4/45.%d.%d.1/tcp/1", i/256, i%256)), time.Hour)
		if i > 0 { // the first is the target, no server
			_, _ = stock.RoutingTable().TryAddPeer(others[i], false, false) // a full bucket takes no more
		}
	}
	n.host.Peerstore().AddAddrs(h.ID(), h.Addrs(), time.Hour)
	infos, err := n.walk.findNode(t.Context(), h.ID(), []byte(others[0]))
	if err != nil || len(infos) != messages.MaxCloser+1 || infos[0].ID != others[0] || len(infos[0].Addrs) == 0 {
		t.Fatalf("%d peers, %v: %v", len(infos), err, infos)
	}
	h.SetStreamHandler(KadID, func(s network.Stream) { // two more than k
		defer s.Close()
		if _, err := delimited.Read(bufio.NewReader(s), maxKadMessage); err != nil {
			return
		}
		a := pb.NewMessage(pb.Message_FIND_NODE, nil, 0)
		for _, p := range others[:messages.MaxCloser+2] {
			a.CloserPeers = append(a.CloserPeers, &pb.Message_Peer{Id: []byte(p)})
		}
		if raw, err := proto.Marshal(a); err == nil {
			_ = delimited.Write(s, raw)
		}
	})
	if infos, err = n.walk.findNode(t.Context(), h.ID(), []byte(others[0])); err != nil ||
		len(infos) != messages.MaxCloser+1 {
		t.Errorf("%d peers, %v", len(infos), err)
	}
}
