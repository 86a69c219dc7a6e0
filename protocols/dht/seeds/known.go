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
	seen time.Time // there, to the hour: the datastore is not written for less
}

// fresh reports whether a peer seen then may still be dialled. A clock that was
// set back does not make it live longer.
func (k known) fresh(now time.Time) bool {
	return now.Sub(k.seen) < knownLife && k.seen.Sub(now) < clockSkew
}

// remember takes over the peers of the routing table.
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

// merge is the peers to remember, at most 64, by id: those of the table, first
// the ones that were remembered before, and then the ones that were and are not
// in the table, those seen last first. So a node that stops while it is offline
// forgets nobody.
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

// fallbacks is who to dial of the remembered peers, at most 8, in random order.
// A seed is none of them: whether it is dialled is its manifest's business.
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

// wellFormed reports whether parseID takes id: what is written can be read.
func wellFormed(id peer.ID) bool {
	_, err := parseID([]byte(id))
	return err == nil
}
