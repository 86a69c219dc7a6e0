#!/usr/bin/env bash
# kad-dht answers FIND_NODE with k + 1 peers when it knows the peer that the key names.
#
# go-libp2p-kad-dht v0.42.2, bucket size 20. A server that is asked FIND_NODE for a peer that it is
# connected to puts that peer first, though it need not be a server, and then adds the 20 closest
# ones. A client that cuts an answer to k = 20, the most of the Kademlia paper, loses the last of the
# closest peers in exactly those answers.
#
# Seen: 21 peers, the target first, and 20 for a key that names nobody.
# For a client: take k + 1 peers if the first is the target.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/libp2p/go-libp2p"
	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-msgio"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"
)

const servers = 24

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func all(as []ma.Multiaddr) []ma.Multiaddr { return as }

func listen() host.Host {
	return must(libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableMetrics(),
		libp2p.ResourceManager(nil), libp2p.DisableRelay()))
}

func serve(ctx context.Context, h host.Host) *kaddht.IpfsDHT {
	return must(kaddht.New(h, kaddht.ProtocolPrefix("/finding"), kaddht.Mode(kaddht.ModeServer),
		kaddht.DisableAutoRefresh(), kaddht.AddressFilter(all), kaddht.QueryFilter(func(any, peer.AddrInfo) bool { return true }),
		kaddht.RoutingTableFilter(func(any, peer.ID) bool { return true })))
}

// ask returns the peers of the answer to FIND_NODE.
func ask(ctx context.Context, from host.Host, to peer.ID, target peer.ID) (out []peer.ID) {
	s := must(from.NewStream(ctx, to, "/finding/kad/1.0.0"))
	defer s.Close()
	m := pb.NewMessage(pb.Message_FIND_NODE, []byte(target), 0)
	if err := msgio.NewVarintWriter(s).WriteMsg(must(proto.Marshal(m))); err != nil {
		panic(err)
	}
	var answer pb.Message
	if err := proto.Unmarshal(must(msgio.NewVarintReader(s).ReadMsg()), &answer); err != nil {
		panic(err)
	}
	for _, p := range pb.PBPeersToPeerInfos(answer.GetCloserPeers()) {
		out = append(out, p.ID)
	}
	return out
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	asked := listen()
	dht := serve(ctx, asked)
	for range servers {
		h := listen()
		serve(ctx, h)
		if err := h.Connect(ctx, *host.InfoFromHost(asked)); err != nil {
			panic(err)
		}
	}
	for dht.RoutingTable().Size() < servers && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	client, known := listen(), listen() // neither speaks the DHT's protocol
	for _, h := range []host.Host{client, known} {
		if err := h.Connect(ctx, *host.InfoFromHost(asked)); err != nil {
			panic(err)
		}
	}
	for len(asked.Peerstore().Addrs(known.ID())) == 0 && ctx.Err() == nil { // the identify protocol brings them
		time.Sleep(50 * time.Millisecond)
	}
	_, key, err := crypto.GenerateEd25519Key(rand.Reader)
	nobody := must(peer.IDFromPublicKey(must(key, err)))
	withTarget, without := ask(ctx, client, asked.ID(), known.ID()), ask(ctx, client, asked.ID(), nobody)
	first := len(withTarget) > 0 && withTarget[0] == known.ID()
	fmt.Printf("peers in the routing table: %d\nFIND_NODE of a connected peer: %d peers, the target first: %v\nFIND_NODE of an unknown peer: %d peers\n",
		dht.RoutingTable().Size(), len(withTarget), first, len(without))
	if len(withTarget) != 21 || !first || len(without) != 20 {
		fmt.Println("CHANGED: expected 21 with the target first, and 20")
		os.Exit(1)
	}
}
GO
go mod init finding >/dev/null 2>&1
go get github.com/libp2p/go-libp2p@v0.51.0 github.com/libp2p/go-libp2p-kad-dht@v0.42.2 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
echo "go-libp2p-kad-dht $(go list -m -f '{{.Version}}' github.com/libp2p/go-libp2p-kad-dht)"
go run .
