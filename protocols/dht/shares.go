package dht

import (
	"cmp"
	"container/list"
	"slices"
	"time"
)

// heldGroup is what the store holds of one IP group.
type heldGroup struct {
	name    string
	records list.List // of *held, the newest last
	at      int       // in providerStore.most; -1: it is this node's own, and not there
}

// Weight and Place implement heaviest.Item.
func (g *heldGroup) Weight() int64 { return int64(g.records.Len()) }
func (g *heldGroup) Place() *int   { return &g.at }

// join counts a record in with its group.
func (p *providerStore) join(h *held) {
	g := p.groups[h.group]
	if g == nil {
		g = &heldGroup{name: h.group, at: -1}
		p.groups[h.group] = g
		if h.group != "" {
			p.most.Push(g)
		}
	}
	h.at = g.records.PushBack(h)
	p.moved(g)
}

// leave counts a record out of its group.
func (p *providerStore) leave(h *held) {
	g := p.groups[h.group]
	g.records.Remove(h.at)
	if g.records.Len() > 0 {
		p.moved(g)
		return
	}
	if g.at >= 0 {
		p.most.Remove(g)
	}
	delete(p.groups, h.group)
}

// moved keeps the order of the groups after g has one more or one less.
func (p *providerStore) moved(g *heldGroup) {
	if g.at >= 0 {
		p.most.Fix(g)
	}
}

// sweepPause is the least time between two looks for expired records when the
// store is full, which go over all of it; the janitor looks each minute.
const sweepPause = time.Second

// makeRoom drops a record for another one of group, and reports whether there
// is room now: expired ones go, if they may be dropped, else the newest of the group that has most, if
// it has more than group will.
func (p *providerStore) makeRoom(group string, now time.Time, expire bool) bool {
	if expire && now.Sub(p.swept).Abs() >= sweepPause {
		p.swept = now
		if p.sweepLocked(now); p.n < p.total {
			return true
		}
	}
	if len(p.most) == 0 {
		return false
	}
	mine := 0
	if g := p.groups[group]; g != nil {
		mine = g.records.Len()
	}
	if group != "" && p.most[0].records.Len() <= mine+1 {
		return false
	}
	p.drop(p.most[0].records.Back().Value.(*held))
	return true
}

// yielding is the record of a full key that gives way to one from s, nil when
// none does. hs is oldest first.
func yielding(hs []*held, s source) *held {
	count := make(map[string]int, len(hs))
	var kept *held // has the place for a provider that was reached
	for _, h := range hs {
		count[h.group]++
		if kept == nil && h.reached && h.group != "" {
			kept = h
		}
	}
	var out *held
	for _, h := range hs {
		switch {
		case h.group == "" || h == kept:
		case out == nil, count[h.group] > count[out.group]:
			out = h
		case count[h.group] == count[out.group] && (out.reached || !h.reached):
			out = h // the newest of those that were not reached
		}
	}
	switch {
	case out == nil:
		return nil
	case s.group == "", s.reached && kept == nil, count[out.group] > count[s.group]+1:
		return out
	}
	return nil
}

// fair returns the records of an answer that has room for so many bytes, in
// their order. When there is not room for all, each IP group gets as many bytes
// as the others, short records first: long ones crowd nobody out.
func fair(records []sealed, room int) []sealed {
	all := 0
	for _, s := range records {
		all += s.size()
	}
	if all <= room {
		return records
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
			if a, b := records[i], records[next]; cmp.Or(cmp.Compare(used[a.group], used[b.group]), cmp.Compare(a.size(), b.size())) < 0 {
				at, next = j, i
			}
		}
		left = slices.Delete(left, at, at+1)
		if size := records[next].size(); size <= room {
			room -= size
			used[records[next].group] += size
			chosen = append(chosen, next)
		}
	}
	slices.Sort(chosen)
	out := make([]sealed, len(chosen))
	for j, i := range chosen {
		out[j] = records[i]
	}
	return out
}

// size is the bytes that a record takes in an answer.
func (s sealed) size() int { return len(s.envelope) + len(s.peerRecord) + 8 }
