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

// bucket is the peers of one common prefix length. Only its writer calls
// publish, and what it publishes it does not change.
type bucket struct {
	entries atomic.Pointer[[]*entry]              // longest in the table first; nil: none
	queue   atomic.Pointer[limits.Queue[*update]] // nil while no writer drains it
	made    *limits.Queue[*update]                // of Table.mu; kept for the next Run
}

// entry is a peer of the table. Its counters are written by the writer of its
// bucket alone.
type entry struct {
	kad.Peer[peer.ID]
	added time.Duration // since the table's epoch, as all times here

	groups atomic.Pointer[[]ipgroup.Group] // the slice never changes
	seen   atomic.Int64                    // time of the last answer
	rtt    atomic.Int64                    // mean of a kad.RTT
	fails  atomic.Int32                    // in a row

	// For the writer.
	failed  time.Duration // time of the last failure
	grouped time.Duration // time when groups was looked at
}

// update is what became of one question to a peer.
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

// publish makes a snapshot without out and with in; either may be nil.
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

// apply is the rules of the table. Only the writer of b calls it.
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
	entries := b.load()
	var out *entry
	if len(entries) >= t.cfg.K {
		if out = t.yielding(entries, u.at); out == nil {
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
	if t.crowded(entries, groups, out) {
		t.refuse(u.ID, diversity)
		return
	}
	e := &entry{Peer: u.Peer, added: u.at, grouped: u.at}
	e.groups.Store(&groups)
	e.answered(u)
	b.publish(out, e)
	if out != nil {
		t.deps.Log.Debug("a peer of the routing table gave way", "peer", out.ID, "to", e.ID)
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
		return // it answered: the addresses are forgotten, not others
	}
	groups := ipgroup.All(addrs)
	switch {
	case slices.Equal(groups, *e.groups.Load()):
	case t.crowded(b.load(), groups, e):
		b.publish(e, nil)
		t.refuse(e.ID, diversity)
	default:
		e.groups.Store(&groups)
	}
}

// fail removes a peer that is gone, and one that is connected but mute.
func (t *Table) fail(b *bucket, e *entry, at time.Duration) {
	e.failed = at
	if e.fails.Add(1) >= maxFails || !t.deps.Connected(e.ID) {
		b.publish(e, nil)
		t.deps.Log.Debug("a peer of the routing table does not answer", "peer", e.ID)
	}
}

// yielding is the entry of a full bucket that gives way to a peer that
// answers: the one that failed last or, if none did, the one not heard of for
// longest, if that is StaleAfter. nil: none.
func (t *Table) yielding(entries []*entry, at time.Duration) *entry {
	var failed, idle *entry
	for _, e := range entries {
		if e.fails.Load() > 0 && (failed == nil || e.failed > failed.failed) {
			failed = e
		}
		if at-e.lastSeen() >= t.cfg.StaleAfter && (idle == nil || e.lastSeen() < idle.lastSeen()) {
			idle = e
		}
	}
	if failed != nil {
		return failed
	}
	return idle
}

// crowded reports whether one of the groups has its share of the entries, those
// but for except.
func (t *Table) crowded(entries []*entry, groups []ipgroup.Group, except *entry) bool {
	return slices.ContainsFunc(groups, func(g ipgroup.Group) bool {
		n := 0
		for _, e := range entries {
			if e != except && slices.Contains(*e.groups.Load(), g) {
				n++
			}
		}
		return n >= t.groupCap
	})
}

func (t *Table) refuse(p peer.ID, why refusal) {
	t.m.refused.WithLabelValues(string(why)).Inc()
	if why == diversity { // the others are common and say nothing of anybody
		t.deps.Log.Debug("a group of addresses has its share of a bucket", "refused", p)
	}
}

// answered notes an answer.
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

// roundTrip is the average of which rtt keeps the mean: the first time that a
// kad.RTT observes becomes its mean.
func (e *entry) roundTrip() (r kad.RTT) {
	if mean := time.Duration(e.rtt.Load()); mean > 0 {
		r.Observe(mean)
	}
	return r
}
