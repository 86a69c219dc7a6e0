#!/usr/bin/env bash
# kad-dht's SweepingProvider cancels the context with which its Close stores the provide queue.
#
# go-libp2p-kad-dht v0.42.2. "Provide queue is persisted on close", says its source, and it is, with the
# provider's own context, which Close has canceled before. A datastore that ignores contexts, such as a
# map, keeps the queue. One that heeds them keeps nothing: each orderly stop loses what was still to be
# announced, and Close returns "context canceled".
#
# Seen: a map keeps a queue of 4 keys in 1 entry; the same map with batches that end with their context
# keeps 0.
# For a user: give the provider a datastore that does not hand its context on while it closes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dssync "github.com/ipfs/go-datastore/sync"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p-kad-dht/provider"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	mh "github.com/multiformats/go-multihash"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// heedful is a datastore whose reads and batches end with their context.
type heedful struct{ ds.Batching }

func (h heedful) Query(ctx context.Context, q query.Query) (query.Results, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.Batching.Query(ctx, q)
}

func (h heedful) Batch(ctx context.Context) (ds.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.Batching.Batch(ctx)
}

// router finds one peer until the network is gone.
type router struct {
	gone   atomic.Bool
	closer peer.ID
}

func (r *router) GetClosestPeers(context.Context, string) ([]peer.ID, error) {
	if r.gone.Load() {
		return nil, errors.New("no network")
	}
	return []peer.ID{r.closer}, nil
}

type sender struct{}

func (sender) SendRequest(context.Context, peer.ID, *pb.Message) (*pb.Message, error) {
	return nil, errors.New("no network")
}
func (sender) SendMessage(context.Context, peer.ID, *pb.Message) error { return errors.New("no network") }

// closeOn runs a provider over store, loses the network, queues keys and closes it.
func closeOn(store ds.Batching) (stored int, err error) {
	r := &router{closer: peer.ID("\x00\x02aa")}
	p := must(provider.New(
		provider.WithPeerID(peer.ID("\x00\x02me")), provider.WithRouter(r), provider.WithMessageSender(sender{}),
		provider.WithSelfAddrs(func() []ma.Multiaddr { return []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/tcp/1")} }),
		provider.WithAddLocalRecord(func(context.Context, mh.Multihash) error { return nil }),
		provider.WithOfflineDelay(time.Hour), provider.WithDatastore(store)))
	time.Sleep(time.Second) // it goes online
	r.gone.Store(true)
	for i := range 4 {
		if err := p.ProvideOnce(must(mh.Sum([]byte{byte(i)}, mh.SHA2_256, -1))); err != nil {
			panic(err)
		}
	}
	time.Sleep(time.Second) // it finds that the network is gone
	err = p.Close()
	for e := range must(store.Query(context.Background(), query.Query{KeysOnly: true})).Next() {
		if strings.HasPrefix(e.Key, "/pqueue/") {
			stored++
		}
	}
	return stored, err
}

func main() {
	plain, plainErr := closeOn(dssync.MutexWrap(ds.NewMapDatastore()))
	kept, err := closeOn(heedful{dssync.MutexWrap(ds.NewMapDatastore())})
	fmt.Printf("a map: %d entries of the queue are stored, Close returns %v\n", plain, plainErr)
	fmt.Printf("a map that heeds contexts: %d, Close returns %v\n", kept, err)
	if plain == 0 || kept != 0 || !errors.Is(err, context.Canceled) {
		fmt.Println("CHANGED: expected some, and none with context canceled")
		os.Exit(1)
	}
}
GO
go mod init finding >/dev/null 2>&1
go get github.com/libp2p/go-libp2p@v0.51.0 github.com/libp2p/go-libp2p-kad-dht@v0.42.2 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
echo "go-libp2p-kad-dht $(go list -m -f '{{.Version}}' github.com/libp2p/go-libp2p-kad-dht)"
go run .
