package routing

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/ipgroup"
	"allium/protocols/kad"
)

// Entry is a peer of the table as it is at one time.
type Entry struct {
	ID     peer.ID
	Bucket int // bits its key has in common with the node's, at most 31
	Added  time.Time
	Seen   time.Time       // its last answer
	RTT    time.Duration   // moving average; 0: unknown
	Fails  int             // in a row, since Seen
	Groups []ipgroup.Group // none: all its addresses are of local networks
}

// Nearest returns up to n peers, the nearest to target first. It never waits.
func (t *Table) Nearest(target kad.Key, n int) []kad.Peer[peer.ID] {
	if n <= 0 {
		return nil
	}
	near := make([]kad.Peer[peer.ID], 0, min(n, t.Size())+t.cfg.K)
	for _, i := range bucketsFrom(t.self, target) {
		from := len(near)
		for _, e := range t.buckets[i].load() {
			near = append(near, e.Peer)
		}
		slices.SortFunc(near[from:], func(a, b kad.Peer[peer.ID]) int { return target.Compare(a.Key, b.Key) })
		if len(near) >= n {
			return near[:n]
		}
	}
	return near
}

// bucketsFrom orders the buckets of a table of self's so that each is wholly
// nearer to target than the next. The peers of bucket i < 31 have self's bits
// before bit i, and not self's bit i. So where self and target differ in that
// bit they are nearer to target than self is, the more so the smaller i; else
// they are farther, the less so the larger i. Those of the last bucket are in
// the midst, with self.
func bucketsFrom(self, target kad.Key) (order [bucketCount]int) {
	differ := binary.BigEndian.Uint32(self[:]) ^ binary.BigEndian.Uint32(target[:])
	front, back := 0, bucketCount-1
	for i := range bucketCount - 1 {
		if differ&(1<<31>>i) != 0 {
			order[front] = i
			front++
		} else {
			order[back] = i
			back--
		}
	}
	order[front] = bucketCount - 1
	return order
}

// HedgeAfter is the hedge delay of p by its round trips, see [kad.RTT]; limit
// when nothing is known of p. It takes no lock.
func (t *Table) HedgeAfter(p peer.ID, limit time.Duration) time.Duration {
	key := keyOf(p)
	if e := t.bucketOf(key).find(key); e != nil {
		return e.roundTrip().HedgeAfter(limit)
	}
	return limit
}

// Size is the number of peers.
func (t *Table) Size() int {
	n := 0
	for i := range t.buckets {
		n += len(t.buckets[i].load())
	}
	return n
}

// Entries lists the table, at most 32 × K peers, those with the shortest common
// prefix first.
func (t *Table) Entries() []Entry {
	var entries []Entry
	for i := range t.buckets {
		for _, e := range t.buckets[i].load() {
			entries = append(entries, Entry{
				ID: e.ID, Bucket: i, Added: t.epoch.Add(e.added), Seen: t.epoch.Add(e.lastSeen()),
				RTT: time.Duration(e.rtt.Load()), Fails: int(e.fails.Load()), Groups: slices.Clone(*e.groups.Load()),
			})
		}
	}
	return entries
}

// Idle returns up to n peers that were last heard of before that time, the
// longest silent first.
func (t *Table) Idle(before time.Time, n int) []peer.ID {
	type idle struct {
		id   peer.ID
		seen time.Duration
	}
	var all []idle
	limit := before.Sub(t.epoch)
	for i := range t.buckets {
		for _, e := range t.buckets[i].load() {
			if seen := e.lastSeen(); seen < limit {
				all = append(all, idle{e.ID, seen})
			}
		}
	}
	slices.SortFunc(all, func(a, b idle) int { return cmp.Compare(a.seen, b.seen) })
	ids := make([]peer.ID, 0, min(max(n, 0), len(all)))
	for _, p := range all[:cap(ids)] {
		ids = append(ids, p.id)
	}
	return ids
}

// Fill compares the table with what it could hold if the network had that many
// peers besides the node ([kad.NetworkSize]): of the need peers that its
// buckets can be expected to hold ([kad.BucketSizes]) it has have.
func (t *Table) Fill(network int) (have, need int) {
	sizes := kad.BucketSizes(network, t.cfg.K, bucketCount)
	lens := make([]int, len(sizes))
	for i := range t.buckets {
		lens[min(i, len(sizes)-1)] += len(t.buckets[i].load())
	}
	for i, size := range sizes {
		have += min(lens[i], size)
		need += size
	}
	return have, need
}
