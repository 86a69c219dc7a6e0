package gc

import (
	"math"
	"sync"
	"sync/atomic"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/meta"
	"allium/store/ram/arena"
)

// Space describes how full the store is.
type Space struct {
	Used        meta.Count // objects and bytes, with outboards, partial objects and puts in progress
	Max         meta.Count // 0 is no bound; for bytes the smallest of max_bytes, the memory cap, and disk less reserve
	Low         meta.Count // where an eviction ends
	Free        int64      // bytes free on the disk, with the ballast; −1 when unknown
	Reserve     int64      // bytes that stay free
	Evictable   meta.Count // what nothing protected when the latest collection looked
	Pinned      meta.Count // what pins reached then
	ReopenBytes int64      // bytes that must fit before a full store takes puts again
	Full        bool       // puts are refused until enough was removed
	FullReason  string     // why, in a sentence
}

// Limits are the configured bounds.
type Limits struct {
	MaxBytes      int64   // 0 for none
	MaxObjects    int64   // 0 for none
	LowWater      float64 // share of a bound at which an eviction ends
	ReserveBytes  int64   // bytes that stay free on the disk
	MemoryBytes   int64   // size of a store in RAM; 0 for a store on disk
	Duty          float64 // share of the time that a collection works, above 0; 1 means without rests
	LargeInBucket bool    // large objects are in a bucket instead of on the node's disk
}

// AccountDeps holds the dependencies of an Account.
type AccountDeps struct {
	Backend   meta.State
	Admission *admission.Control
	Registry  *limits.Registry

	// Free returns how many bytes the disk has left, and how many the backend is about to
	// give back. known is false when the disk cannot tell. Free is nil for a store in RAM.
	Free func() (free, coming int64, known bool)
	// RAM returns the arena counters of a store in RAM.
	RAM func() arena.Stats
}

// Account counts what the store holds and what is reserved for writes in progress, and
// refuses what exceeds the bounds. Its methods are safe for concurrent use, after New has
// set the evictor.
type Account struct {
	live    atomic.Pointer[Limits]
	deps    AccountDeps
	evictor *Collector
	waiters *limits.Gate

	bytes     atomic.Int64 // reserved
	objects   atomic.Int64 // reserved
	unwritten atomic.Int64 // the part of bytes that is not on the disk yet: promised to uploads
	refused   atomic.Int64 // writes that were refused

	mu   sync.Mutex // lock: leaf
	disk disk       // at the last poll
	full string     // why puts are refused; empty: they are not
}

// disk says how full the disk is, in bytes.
type disk struct {
	free   int64 // −1: not known
	coming int64 // that the compactor is about to give back
	used   int64 // by the store
}

// NewAccount returns an account. It works once New has made a Collector for it.
func NewAccount(l Limits, deps AccountDeps) *Account {
	spec := limits.Spec{
		Name: "store.room", Path: "puts and downloads → waiting for an eviction to free space", Policy: "no_space",
	}
	a := &Account{deps: deps, disk: disk{free: -1}, waiters: deps.Registry.NewGate(spec, maxReserveWaits, 0)}
	a.SetLimits(l)
	return a
}

// SetLimits replaces the limits. If one shrinks, objects beyond it are evicted as usual. The size of a store in RAM,
// and the place of large objects, must not change.
func (a *Account) SetLimits(l Limits) { a.live.Store(&l) }

// usage returns what is used now. A deferred object counts from its put on.
func (a *Account) usage() amount {
	t := a.deps.Backend.Totals()
	n := amount{Count: meta.Count{
		Objects: t.Objects.Load() + t.PendingObjects.Load() + a.objects.Load(),
		Bytes: t.Bytes.Load() + t.OutboardBytes.Load() + t.PendingBytes.Load() +
			meta.PartialSize(a.evictor.deps.Partials.Bytes()) + a.bytes.Load(),
	}}
	n.local = n.Bytes
	if a.live.Load().LargeInBucket {
		n.local -= t.LargeBytes.Load()
	}
	return n
}

// localSize returns how many bytes e takes on the node's own disk.
func (a *Account) localSize(e meta.Entry) int64 {
	if a.live.Load().LargeInBucket && !meta.Small(e.Size) {
		return b3.OutboardSize(e.Size)
	}
	return meta.StoredSize(e.Size)
}

// poll reads how much of the disk is free.
func (a *Account) poll() {
	now := disk{free: -1}
	if a.deps.Free != nil {
		if free, coming, known := a.deps.Free(); known {
			now.free, now.coming = free, coming
		}
	}
	now.used = a.usage().local - a.unwritten.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.disk = now
}

// bounds computes the bounds in force from the configuration and the last poll. Bytes that
// the compactor is about to give back count as free for evictions, as the next eviction
// would otherwise remove more than needed. They do not count as free for puts.
func (a *Account) bounds() bounds {
	a.mu.Lock()
	disk := a.disk
	a.mu.Unlock()
	none := amount{meta.Count{Objects: math.MaxInt64, Bytes: math.MaxInt64}, math.MaxInt64}
	b := bounds{none, none, none}
	lower := func(hard, trigger, low *int64, limit int64) {
		lowest := int64(float64(limit) * a.live.Load().LowWater)
		*hard, *trigger, *low = min(*hard, limit), min(*trigger, lowest+(limit-lowest)/2), min(*low, lowest)
	}
	for _, limit := range []int64{a.live.Load().MaxBytes, a.memoryCap()} {
		if limit > 0 {
			lower(&b.hard.Bytes, &b.trigger.Bytes, &b.low.Bytes, limit)
		}
	}
	if n := a.live.Load().MaxObjects; n > 0 {
		lower(&b.hard.Objects, &b.trigger.Objects, &b.low.Objects, n)
	}
	if reserve := a.live.Load().ReserveBytes; disk.free >= 0 {
		limit := max(0, disk.used+disk.free+disk.coming-2*reserve)
		b.hard.local = max(0, disk.used+disk.free-reserve)
		b.trigger.local = limit
		b.low.local = int64(float64(limit) * a.live.Load().LowWater)
	}
	return b
}

// PutSize returns how many bytes a small object of n bytes takes: whole blocks in RAM, n
// bytes on disk.
func (a *Account) PutSize(n int64) int64 {
	if a.live.Load().MemoryBytes > 0 {
		return arena.BlockSize(int(n))
	}
	return n
}

// memoryCap returns how many bytes of objects a store in RAM can hold; 0 for a store on
// disk. It subtracts from the cap the outboards, the rounding to blocks, and removed
// objects that are still being read.
func (a *Account) memoryCap() int64 {
	if a.live.Load().MemoryBytes == 0 {
		return 0
	}
	limit, ram, used := a.live.Load().MemoryBytes, a.deps.RAM(), a.usage().Bytes
	removed := max(0, ram.Used-ram.Wasted-used)
	return max(1, limit-meta.OutboardShare(limit)-ram.Wasted-removed)
}

// Space returns how full the store is. It does no I/O and works in every phase of the
// store.
func (g *Collector) Space() Space {
	a := g.deps.Account
	b := a.bounds()
	if !a.live.Load().LargeInBucket { // all bytes are local
		b.hard.Bytes, b.low.Bytes = min(b.hard.Bytes, b.hard.local), min(b.low.Bytes, b.low.local)
	}
	sp := Space{
		Used: a.usage().Count, Max: b.hard.Count, Low: b.low.Count,
		Reserve: a.live.Load().ReserveBytes, ReopenBytes: b.reopenBytes(),
	}
	for _, n := range []*int64{&sp.Max.Bytes, &sp.Max.Objects, &sp.Low.Bytes, &sp.Low.Objects} {
		if *n == math.MaxInt64 {
			*n = 0
		}
	}
	a.mu.Lock()
	sp.Free, sp.Full, sp.FullReason = a.disk.free, a.full != "", a.full
	a.mu.Unlock()
	last, _, _ := g.latest()
	sp.Evictable, sp.Pinned = last.Classes[Cache], last.Classes[Pinned]
	return sp
}

// diskLow reports whether the disk itself has little space left. Removed bytes appear as
// free there only after compaction.
func (a *Account) diskLow() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.disk.free >= 0 && a.disk.free < 2*a.live.Load().ReserveBytes
}

// updateFull decides whether the store refuses puts. It does when one more group does not
// fit and an eviction made no space, until reopenBytes fit again.
func (a *Account) updateFull(use amount, b bounds) {
	noEviction := a.evictor.backingOff()
	why := "pins hold as much as the store may keep; " +
		"unpin what is not needed, or raise store.max_bytes or store.max_objects"
	if open, _ := a.evictor.deps.Damages().Open(); open > 0 {
		noEviction, why = true, "nothing is evicted: "+BlockedBy(open)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	reserve := a.live.Load().ReserveBytes
	put := func(n int64) amount {
		return amount{meta.Count{Objects: use.Objects + 1, Bytes: use.Bytes + n}, use.local + n}
	}
	switch {
	case a.disk.free >= 0 && a.disk.free < reserve+2*b3.GroupSize:
		a.full = "the disk has less free than store.reserve_bytes; free disk space, or unpin what is not needed"
	case noEviction && put(meta.PartialSize(growth)).exceeds(b.hard):
		a.full = why
	case a.full != "" && !put(b.reopenBytes()).exceeds(b.hard) &&
		(a.disk.free < 0 || a.disk.free >= reserve+b.reopenBytes()):
		a.full = ""
	}
}
