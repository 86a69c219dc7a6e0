package hints

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/jitter"
	"allium/protocols/status"
)

// run compares with peers until ctx ends. It compares SyncSoon after gossip brought an
// announcement, and after a quarter of SyncSoon when a comparison found a difference.
// Otherwise, and while there are no peers, the interval doubles up to SyncInterval. A new
// peer may come from the other side of a partition, so it also brings a comparison soon, but
// never more than one in arrivalGap times SyncSoon, however many peers arrive.
func (y *syncer) run(ctx context.Context) {
	soon, quick, gap := y.s.cfg.SyncSoon, y.s.cfg.SyncSoon/4, arrivalGap*y.s.cfg.SyncSoon
	pause := soon
	var last time.Time // the end of the last comparison
	due := time.Now().Add(jitter.Spread(pause))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		select {
		case <-y.wake:
			due, pause = earlier(due, time.Now().Add(jitter.Spread(soon))), min(pause, soon)
		case <-y.differed:
			due, pause = earlier(due, time.Now().Add(jitter.Spread(quick))), quick
		case <-y.arrived:
			at := time.Now().Add(jitter.Spread(soon))
			if next := last.Add(gap); next.After(at) {
				at = next
			}
			// One of this comparison and the next is with the new peer: see peers.
			due, pause = earlier(due, at), min(pause, gap/2)
		case <-timer.C:
			switch compared, differ := y.round(ctx); {
			case differ:
				pause = quick
			case compared || len(y.peers()) == 0: // a new peer signals arrived
				pause = min(2*pause, y.s.cfg.SyncInterval)
			default: // no peer compared
				pause = soon
			}
			last = time.Now()
			due = last.Add(jitter.Spread(pause))
		case <-ctx.Done():
			return
		}
		timer.Reset(time.Until(due))
	}
}

// watch signals arrived when a peer that compares was connected, until ctx ends. It never
// blocks, because the event bus waits for its readers.
func (y *syncer) watch(ctx context.Context, arrivals event.Subscription) {
	defer func() { _ = arrivals.Close() }()
	for {
		select {
		case e := <-arrivals.Out():
			if e, ok := e.(event.EvtPeerIdentificationCompleted); ok && slices.Contains(e.Protocols, SyncID) {
				signal(y.arrived)
			}
		case <-ctx.Done():
			return
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// round compares with one peer, and reports whether it did and whether they differed.
func (y *syncer) round(ctx context.Context) (compared, differ bool) {
	peers := y.peers()
	for _, p := range peers[:min(len(peers), syncTries)] {
		start := time.Now()
		y.last.Add(p, start)
		differ, err := y.with(ctx, p)
		if ctx.Err() != nil {
			return false, false
		}
		y.s.m.synced(sideAsked, start, err)
		if err == nil {
			return true, differ
		}
		y.s.log.Debug("a comparison of announcements failed", "peer", p, "reason", status.Of(err), "err", err)
	}
	return false, false
}

// peers lists the connected peers that compare, in random order. In every other round the
// peer asked longest ago comes first. A new peer is therefore asked soon, and many new peers
// cannot take every round.
func (y *syncer) peers() []peer.ID {
	h := y.s.deps.Host
	var peers []peer.ID
	for _, p := range h.Network().Peers() {
		if h.Network().Connectedness(p) != network.Connected {
			continue
		}
		if got, err := h.Peerstore().SupportsProtocols(p, SyncID); err == nil && len(got) > 0 {
			peers = append(peers, p)
		}
	}
	rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	if y.rounds++; y.rounds%2 == 1 && len(peers) > 0 {
		first := 0
		for i, p := range peers {
			if y.since(p).Before(y.since(peers[first])) {
				first = i
			}
		}
		peers[0], peers[first] = peers[first], peers[0]
	}
	return peers
}

// since returns when p was last asked, zero if that is not known.
func (y *syncer) since(p peer.ID) time.Time {
	at, _ := y.last.Peek(p)
	return at
}
