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

// Entry is a snapshot of a peer of the table.
type Entry struct {
	ID     peer.ID
	Bucket int // leading key bits shared with the node, at most 31
	Added  time.Time
	Seen   time.Time       // time of the last response
	RTT    time.Duration   // moving average; 0: unknown
	Fails  int             // failures in a row since Seen
	Groups []ipgroup.Group // empty: all its addresses are of local networks
}

// Nearest returns up to n peers, nearest to target first. It never waits.
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

// bucketsFrom orders the buckets of self's table so that all peers of a bucket are nearer
// to target than those of the next. The peers of bucket i < 31 share self's bits before
// bit i and differ from self in bit i. If self and target differ in bit i, these peers are
// nearer to target than self is, and more so for a smaller i. Otherwise they are farther,
// and less so for a larger i. The last bucket, which self would be in, lies between.
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

// HedgeAfter returns the hedge delay of p by its round trips, see [kad.RTT], and limit for
// a peer that is not in the table. It takes no lock.
func (t *Table) HedgeAfter(p peer.ID, limit time.Duration) time.Duration {
	key := keyOf(p)
	if e := t.bucketOf(key).find(key); e != nil {
		return e.roundTrip().HedgeAfter(limit)
	}
	return limit
}

// Size returns the number of peers.
func (t *Table) Size() int {
	n := 0
	for i := range t.buckets {
		n += len(t.buckets[i].load())
	}
	return n
}

// Entries lists the table, at most 32 × K peers, shortest common prefix first.
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

// Idle returns up to n peers that were last seen before the given time, the longest silent
// first.
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

// Fill compares the table with what it could hold in a network of that many other peers
// ([kad.NetworkSize]). need is the number of peers that its buckets are expected to hold
// ([kad.BucketSizes]), and have is how many of these it holds.
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
