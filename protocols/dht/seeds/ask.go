package seeds

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// ask asks a connected seed for peers near this node, unless it has answered over this
// connection or was asked within askEvery. A response without peers does not count as an
// answer.
func (b *Bootstrapper) ask(ctx context.Context, id peer.ID) {
	if b.deps.Ask == nil || !b.mayAsk(id, time.Now()) {
		return
	}
	actx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	peers, err := b.deps.Ask(actx, id)
	if ctx.Err() != nil {
		return // the node stops: the error says nothing about the seed
	}
	count(b.m.asks, err)
	if err != nil {
		b.log.Debug("a seed did not answer a request for peers", "seed", id, "error", err)
		return
	}
	peers = b.given(id, peers)
	ids := make([]peer.ID, len(peers))
	for i, p := range peers {
		ids[i] = p.ID
	}
	b.update(id, func(st *seedState) {
		st.asked, st.gave, st.gaveAt = len(peers) > 0, ids, time.Now()
	})
	if b.deps.Learned != nil && len(peers) > 0 {
		b.deps.Learned(id, peers)
	}
}

// mayAsk reports whether to ask a seed now. If so, it records the time.
func (b *Bootstrapper) mayAsk(id peer.ID, now time.Time) (may bool) {
	b.update(id, func(st *seedState) {
		may = !st.asked && (st.askedAt.IsZero() || now.Sub(st.askedAt) >= askEvery)
		if may {
			st.askedAt = now
		}
	})
	return may
}

// given returns the peers of a response that are used: the first 20 that have an address and
// are neither this node nor the seed, each once.
func (b *Bootstrapper) given(from peer.ID, answer []peer.AddrInfo) []peer.AddrInfo {
	used := map[peer.ID]bool{b.deps.Self: true, from: true}
	var peers []peer.AddrInfo
	for _, p := range answer {
		addrs := fitting(p.Addrs, maxSeedAddrs)
		if len(peers) == maxGiven || used[p.ID] || !wellFormed(p.ID) || len(addrs) == 0 {
			continue
		}
		used[p.ID] = true
		peers = append(peers, peer.AddrInfo{ID: p.ID, Addrs: addrs})
	}
	return peers
}

// forgetConnections marks the seeds that are not connected, so that they are asked again
// once they are.
func (b *Bootstrapper) forgetConnections() {
	for _, s := range b.seeds() {
		if !b.deps.Dialer.Connected(s.ID) {
			b.update(s.ID, func(st *seedState) { st.asked = false })
		}
	}
}
