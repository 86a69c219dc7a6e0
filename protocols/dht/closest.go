package dht

import (
	"context"
	"fmt"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/dht/messages"
	"allium/protocols/kad"
)

// walker looks up the peers that are closest to a key.
type walker struct {
	lookups *admission
	sender  *kadSender
}

// closest returns up to k live peers closest to key, nearest first, and the result of the
// lookup.
func (w *walker) closest(
	ctx context.Context, op string, cfg kad.Config, key []byte,
) ([]peer.ID, kad.Result[peer.ID], error) {
	r, ctx, end, err := w.lookups.begin(ctx)
	if err != nil {
		return nil, kad.Result[peer.ID]{}, err
	}
	defer end()
	ask := func(ctx context.Context, p peer.ID) (answer, error) {
		closer, err := w.findNode(ctx, p, key)
		return answer{closer: closer}, err
	}
	res, err := r.engine.run(ctx, search{op: op, key: key, cfg: cfg, ask: ask})
	if err != nil {
		return nil, res, err
	}
	ids := make([]peer.ID, len(res.Closest))
	for i, c := range res.Closest {
		ids[i] = c.ID
	}
	return ids, res, nil
}

// GetClosestPeers returns up to k live peers closest to key, nearest first. It is the
// router of the republish sweep, and does not hedge: records need all of the k closest.
func (w *walker) GetClosestPeers(ctx context.Context, key string) ([]peer.ID, error) {
	ids, _, err := w.closest(ctx, opSweep, w.lookups.cfg.Load().publishConfig(), []byte(key))
	return ids, err
}

// findNode asks p for the peers that it knows closest to key.
func (w *walker) findNode(ctx context.Context, p peer.ID, key []byte) ([]peer.AddrInfo, error) {
	m, err := w.sender.SendRequest(ctx, p, pb.NewMessage(pb.Message_FIND_NODE, key, 0))
	if err != nil {
		return nil, fmt.Errorf("ask for closer peers: %w", err)
	}
	near := m.GetCloserPeers()
	near = near[:min(len(near), messages.MaxCloser+1)] // the target, and the closest
	infos := make([]peer.AddrInfo, 0, len(near))
	for _, info := range pb.PBPeersToPeerInfos(near) {
		if id, err := messages.ParsePeerID([]byte(info.ID)); err == nil {
			addrs := info.Addrs[:min(len(info.Addrs), 2*messages.MaxCloserAddrs)]
			infos = append(infos, peer.AddrInfo{ID: id, Addrs: addrs})
		}
	}
	return infos, nil
}
