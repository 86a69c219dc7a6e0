package seeds

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// known is a peer that was in the routing table.
type known struct {
	peer.AddrInfo
	seen time.Time // last time in the table, in whole hours so that the datastore is rarely written
}

// fresh reports whether the peer may still be dialed. If the clock was set back, the peer
// does not stay fresh for longer.
func (k known) fresh(now time.Time) bool {
	return now.Sub(k.seen) < knownLife && k.seen.Sub(now) < clockSkew
}

// remember updates the remembered peers from the routing table.
func (b *Bootstrapper) remember(now time.Time) {
	if b.deps.Peers == nil {
		return
	}
	skip := map[peer.ID]bool{b.deps.Self: true}
	for _, s := range b.seeds() {
		skip[s.ID] = true
	}
	next := merge(b.remembered(), b.deps.Peers(), skip, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = next
}

// merge returns the peers to remember, at most 64, sorted by ID. Peers of the table that were
// remembered before have precedence, then the other peers of the table, then remembered peers
// that are no longer in the table, last seen first. A node that stops while it is offline
// therefore forgets no peer.
func merge(old []known, table []peer.AddrInfo, skip map[peer.ID]bool, now time.Time) []known {
	before := make(map[peer.ID]bool, len(old))
	for _, k := range old {
		before[k.ID] = true
	}
	again, fresh := []known{}, []known{}
	taken := map[peer.ID]bool{}
	for _, p := range table {
		addrs := fitting(p.Addrs, maxKnownAddrs)
		if skip[p.ID] || taken[p.ID] || !wellFormed(p.ID) || len(addrs) == 0 {
			continue
		}
		taken[p.ID] = true
		k := known{peer.AddrInfo{ID: p.ID, Addrs: addrs}, now.Truncate(time.Hour)}
		if before[p.ID] {
			again = append(again, k)
		} else {
			fresh = append(fresh, k)
		}
	}
	gone := slices.Clone(old)
	gone = slices.DeleteFunc(gone, func(k known) bool { return skip[k.ID] || taken[k.ID] || !k.fresh(now) })
	slices.SortStableFunc(gone, func(a, b known) int { return b.seen.Compare(a.seen) })
	next := slices.Concat(again, fresh, gone)
	next = next[:min(len(next), maxKnown)]
	slices.SortFunc(next, func(a, b known) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return next
}

// fallbacks returns up to 8 remembered peers to dial, in random order. It leaves out seeds:
// their manifest decides whether they are dialed.
func (b *Bootstrapper) fallbacks(now time.Time) []peer.AddrInfo {
	seeds := map[peer.ID]bool{}
	for _, s := range b.seeds() {
		seeds[s.ID] = true
	}
	peers := b.remembered()
	var pick []peer.AddrInfo
	for _, i := range rand.Perm(len(peers)) {
		if k := peers[i]; k.fresh(now) && !seeds[k.ID] && len(pick) < maxFallback {
			pick = append(pick, k.AddrInfo)
		}
	}
	return pick
}

// wellFormed reports whether parseID accepts id, so that a stored id can be read back.
func wellFormed(id peer.ID) bool {
	_, err := parseID([]byte(id))
	return err == nil
}
