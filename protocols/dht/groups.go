package dht

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/dht/messages"
)

// groupEntry holds the records of one IP group.
type groupEntry struct {
	name      string
	records   list.List // of *entry, the newest last
	heapIndex int       // index in providerStore.largest; -1: this node's own group, not in the heap
}

// Weight and Place implement heaviest.Item.
func (g *groupEntry) Weight() int64 { return int64(g.records.Len()) }
func (g *groupEntry) Place() *int   { return &g.heapIndex }

// joinGroup adds a record to its group.
func (p *providerStore) joinGroup(h *entry) {
	g := p.groups[h.group]
	if g == nil {
		g = &groupEntry{name: h.group, heapIndex: -1}
		p.groups[h.group] = g
		if h.group != "" {
			p.largest.Push(g)
		}
	}
	h.group, h.element = g.name, g.records.PushBack(h)
	if g.heapIndex >= 0 {
		p.largest.Fix(g)
	}
}

// leaveGroup removes a record from its group.
func (p *providerStore) leaveGroup(h *entry) {
	g := p.groups[h.group]
	g.records.Remove(h.element)
	empty := g.records.Len() == 0
	if empty {
		delete(p.groups, h.group)
	}
	switch {
	case g.heapIndex < 0:
	case empty:
		p.largest.Remove(g)
	default:
		p.largest.Fix(g)
	}
}

// sweepPause is the shortest time between two scans of a full store for expired records.
// The janitor scans each minute anyway.
const sweepPause = time.Second

// evictFor makes a place for a record of group and reports whether there is one. It first
// drops expired records, if expire is set. Otherwise it drops the newest record of the
// largest group, if that group has at least two records more than group. A record of this
// node displaces the newest record of the largest group in any case.
func (p *providerStore) evictFor(group string, now time.Time, expire bool) bool {
	if expire && now.Sub(p.lastSweep).Abs() >= sweepPause {
		p.lastSweep = now
		if p.sweepLocked(now); p.count < p.most.total {
			return true
		}
	}
	if len(p.largest) == 0 {
		return false
	}
	mine := 0
	if g := p.groups[group]; g != nil {
		mine = g.records.Len()
	}
	if group != "" && p.largest[0].records.Len() <= mine+1 {
		return false
	}
	p.drop(p.largest[0].records.Back().Value.(*entry))
	return true
}

// evictable returns the record of a full key that a new record from s may replace, nil if
// there is none. hs is oldest first.
func evictable(hs []*entry, s source) *entry {
	count := make(map[string]int, len(hs))
	var protected *entry // has the place for a provider that was reached
	for _, h := range hs {
		count[h.group]++
		if protected == nil && h.reached && h.group != "" {
			protected = h
		}
	}
	var out *entry
	for _, h := range hs {
		switch {
		case h.group == "" || h == protected:
		case out == nil, count[h.group] > count[out.group]:
			out = h
		case count[h.group] == count[out.group] && (out.reached || !h.reached):
			out = h // prefer the newest of those that were not reached
		}
	}
	switch {
	case out == nil:
		return nil
	case s.group == "", s.reached && protected == nil, count[out.group] > count[s.group]+1:
		return out
	}
	return nil
}

// selectFair returns the records that fit a response of size bytes, in their order. If not
// all fit, each IP group receives the same number of bytes, short records first, so that
// long records crowd no group out.
func selectFair(records []sourced, size int) []messages.Sealed {
	out := make([]messages.Sealed, len(records))
	all := 0
	for i, s := range records {
		out[i] = s.Sealed
		all += s.Size()
	}
	if all <= size {
		return out
	}
	used := make(map[string]int)
	left := make([]int, len(records))
	for i := range left {
		left[i] = i
	}
	var chosen []int
	for len(left) > 0 {
		at, next := 0, left[0]
		for j, i := range left {
			a, b := records[i], records[next]
			if cmp.Or(cmp.Compare(used[a.group], used[b.group]), cmp.Compare(a.Size(), b.Size())) < 0 {
				at, next = j, i
			}
		}
		left = slices.Delete(left, at, at+1)
		if n := records[next].Size(); n <= size {
			size -= n
			used[records[next].group] += n
			chosen = append(chosen, next)
		}
	}
	slices.Sort(chosen)
	for j, i := range chosen {
		out[j] = records[i].Sealed
	}
	return out[:len(chosen)]
}

// getResponse packs records, selected fairly by the IP groups that they came from, and closer
// peers.
func getResponse(held []sourced, closer []peer.AddrInfo) messages.Response {
	fair := selectFair(held[:min(len(held), messages.MaxProviders)], messages.MaxRecordBytes)
	return messages.ProviderResponse(fair, closer)
}
