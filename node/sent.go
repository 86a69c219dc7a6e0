package node

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/node/local/sent"
	"allium/protocols/b3"
	"allium/protocols/object"
)

// noteSent records the ranges of an object that the object server has sent over a connection.
func (n *Node) noteSent(c network.Conn, root b3.Root, size int64, ranges []b3.Range) {
	n.sent.Sent(sent.Peer{ID: c.RemotePeer(), Addr: c.RemoteMultiaddr()}, root, size, ranges)
}

// FollowSent follows from now on which peers get all of an object of the store, with what is below it. The
// function that it returns calls whole for each of them, once, until ctx ends. A node follows one object at
// a time, the last.
func (n *Node) FollowSent(
	ctx context.Context, root b3.Root, kind api.Kind, size int64,
) (run func(ctx context.Context, whole func(sent.Peer)), err error) {
	below := map[b3.Root]int64{root: size}
	if kind == api.Directory {
		for ref, err := range n.store.Collector().Refs(ctx, root) {
			if err != nil {
				return nil, err
			}
			if below[ref.Root] = ref.Size; len(below) > sent.MaxObjects {
				below = nil
				break
			}
		}
	}
	w, err := n.sent.Watch(below)
	if err != nil {
		return nil, err
	}
	has := func(ctx context.Context, p peer.ID, rest []b3.Root) bool {
		ctx, cancel := context.WithTimeout(ctx, askSentWait)
		defer cancel()
		for some := range slices.Chunk(rest, object.MaxHave) {
			if n.host.Network().Connectedness(p) != network.Connected {
				return false
			}
			got, err := n.objects.Have(ctx, p, some)
			if err != nil || slices.ContainsFunc(got, func(has b3.Presence) bool { return has != b3.Complete }) {
				return false
			}
		}
		return true
	}
	return func(ctx context.Context, whole func(sent.Peer)) { w.Run(ctx, has, whole) }, nil
}

// askSentWait bounds the time that FollowSent waits for a peer that it asks what it has.
const askSentWait = time.Second
