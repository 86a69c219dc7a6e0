package routing

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/kad"
)

// bucket holds the peers of one common prefix length. Only its writer calls publish. A
// published slice never changes.
type bucket struct {
	entries  atomic.Pointer[[]*entry]              // longest in the table first; nil: none
	queue    atomic.Pointer[limits.Queue[*update]] // nil while no writer drains it
	reusable *limits.Queue[*update]                // reused by the next Run; guarded by Table.mu
}

// entry is a peer of the table. Only the writer of its bucket writes its counters.
type entry struct {
	kad.Peer[peer.ID]
	added time.Duration // since the table's epoch, like all times here

	groups atomic.Pointer[[]ipgroup.Group] // the slice never changes
	seen   atomic.Int64                    // time of the last response
	rtt    atomic.Int64                    // mean of a kad.RTT, in nanoseconds
	fails  atomic.Int32                    // failures in a row

	// Used only by the writer.
	failed  time.Duration // time of the last failure
	grouped time.Duration // time when groups was computed
}

// update is the result of one call to a peer.
type update struct {
	kad.Peer[peer.ID]
	at     time.Duration
	rtt    time.Duration // 0: unknown
	failed bool
}

func (b *bucket) load() []*entry {
	if p := b.entries.Load(); p != nil {
		return *p
	}
	return nil
}

func (b *bucket) find(key kad.Key) *entry {
	for _, e := range b.load() {
		if e.Key == key {
			return e
		}
	}
	return nil
}

// publish stores a snapshot without out and with in; either may be nil.
func (b *bucket) publish(out, in *entry) {
	old := b.load()
	entries := make([]*entry, 0, len(old)+1)
	for _, e := range old {
		if e != out {
			entries = append(entries, e)
		}
	}
	if in != nil {
		entries = append(entries, in)
	}
	b.entries.Store(&entries)
}

// replaceable returns the entry of the full bucket that a peer that answers may replace: the
// one that failed last, or else the one silent for longest if that is at least staleAfter.
// It returns nil if there is none.
func (b *bucket) replaceable(at, staleAfter time.Duration) *entry {
	var failed, idle *entry
	for _, e := range b.load() {
		if e.fails.Load() > 0 && (failed == nil || e.failed > failed.failed) {
			failed = e
		}
		if at-e.lastSeen() >= staleAfter && (idle == nil || e.lastSeen() < idle.lastSeen()) {
			idle = e
		}
	}
	if failed != nil {
		return failed
	}
	return idle
}

// crowded reports whether one of the groups already has its share of the entries, most, not
// counting except.
func (b *bucket) crowded(groups []ipgroup.Group, except *entry, most int) bool {
	entries := b.load()
	return slices.ContainsFunc(groups, func(g ipgroup.Group) bool {
		n := 0
		for _, e := range entries {
			if e != except && slices.Contains(*e.groups.Load(), g) {
				n++
			}
		}
		return n >= most
	})
}

// apply applies an update. Only the writer of b calls it.
func (t *Table) apply(b *bucket, u *update) {
	switch e := b.find(u.Key); {
	case e == nil && !u.failed:
		t.admit(b, u)
	case e == nil:
	case u.failed:
		t.fail(b, e, u.at)
	default:
		t.refresh(b, e, u)
	}
}

func (t *Table) admit(b *bucket, u *update) {
	var out *entry
	if len(b.load()) >= t.cfg.K {
		if out = b.replaceable(u.at, t.cfg.StaleAfter); out == nil {
			t.refuse(u.ID, full)
			return
		}
	}
	addrs := t.deps.Addrs(u.ID)
	if len(addrs) == 0 {
		t.refuse(u.ID, noAddress)
		return
	}
	groups := ipgroup.All(addrs)
	if b.crowded(groups, out, t.groupCap) {
		t.refuse(u.ID, diversity)
		return
	}
	e := &entry{Peer: u.Peer, added: u.at, grouped: u.at}
	e.groups.Store(&groups)
	e.answered(u)
	b.publish(out, e)
	if out != nil {
		t.deps.Log.Debug("replaced a peer of the routing table", "peer", out.ID, "by", e.ID)
	}
}

func (t *Table) refresh(b *bucket, e *entry, u *update) {
	e.answered(u)
	if u.at-e.grouped < regroupAfter {
		return
	}
	e.grouped = u.at
	addrs := t.deps.Addrs(e.ID)
	if len(addrs) == 0 {
		return // the peer answered, so only its addresses were forgotten: keep its groups
	}
	groups := ipgroup.All(addrs)
	switch {
	case slices.Equal(groups, *e.groups.Load()):
	case b.crowded(groups, e, t.groupCap):
		b.publish(e, nil)
		t.refuse(e.ID, diversity)
	default:
		e.groups.Store(&groups)
	}
}

// fail removes a peer that is not connected, or that failed maxFails times in a row.
func (t *Table) fail(b *bucket, e *entry, at time.Duration) {
	e.failed = at
	if e.fails.Add(1) >= maxFails || !t.deps.Connected(e.ID) {
		b.publish(e, nil)
		t.deps.Log.Debug("removed a peer of the routing table that does not answer", "peer", e.ID)
	}
}

func (t *Table) refuse(p peer.ID, why refusal) {
	t.m.refused.WithLabelValues(string(why)).Inc()
	if why == diversity { // the other reasons are common
		t.deps.Log.Debug("refused a peer: its group of addresses has its share of a bucket", "peer", p)
	}
}

// answered records a response.
func (e *entry) answered(u *update) {
	e.seen.Store(int64(max(u.at, e.lastSeen())))
	e.fails.Store(0)
	if u.rtt > 0 {
		r := e.roundTrip()
		r.Observe(u.rtt)
		e.rtt.Store(int64(r.Mean()))
	}
}

func (e *entry) lastSeen() time.Duration { return time.Duration(e.seen.Load()) }

// roundTrip returns an average that starts at the stored mean.
func (e *entry) roundTrip() (r kad.RTT) {
	if mean := time.Duration(e.rtt.Load()); mean > 0 {
		r.Observe(mean)
	}
	return r
}
