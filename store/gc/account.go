package gc

import (
	"math"
	"sync"
	"sync/atomic"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/arena"
	"allium/store/meta"
)

// Space is how full the store is.
type Space struct {
	Used       meta.Count // objects and bytes: outboards, partial objects and puts under way included
	Max        meta.Count // 0 is no bound; of bytes the smallest of max_bytes, the memory cap, and what the disk has beyond the reserve
	Low        meta.Count // where an eviction ends
	Free       int64      // bytes free on the disk, the ballast among them, −1 when it cannot tell
	Reserve    int64      // bytes that stay free
	Evictable  meta.Count // that nothing held when the latest collection looked
	Pinned     meta.Count // that a pin held then
	Again      int64      // bytes that must fit before a full store takes puts again
	Full       bool       // puts are refused until enough was removed
	FullReason string     // why, in a sentence
}

// Limits are the bounds that the configuration sets.
type Limits struct {
	MaxBytes     int64   // 0: none
	MaxObjects   int64   // 0: none
	LowWater     float64 // share of a bound at which an eviction ends
	ReserveBytes int64   // that stay free on the disk
	MemoryBytes  int64   // of a store in RAM, 0 for another one
	Remote       bool    // the bytes of large objects are in a bucket, not on the node's own disk
}

// AccountDeps are what an Account works with.
type AccountDeps struct {
	Backend   Backend
	Admission *admission.Control
	Registry  *limits.Registry

	// Free is how many bytes the disk has left, and how many the backend is about to
	// give back; known is false when it cannot tell. It is nil for a store in RAM.
	Free func() (free, coming int64, known bool)
	// RAM is the account of a store in RAM.
	RAM func() arena.Stats
}

// Account counts what the store holds and what was reserved for writes under way,
// and refuses what passes the bounds. Its methods are safe for concurrent use.
type Account struct {
	cfg     Limits
	deps    AccountDeps
	evictor *Collector
	waits   *limits.Gate

	bytes     atomic.Int64 // reserved
	objects   atomic.Int64 // reserved
	unwritten atomic.Int64 // of bytes, those that the disk does not know of yet: promised to uploads
	refused   atomic.Int64 // writes

	mu       sync.Mutex
	free     int64 // of the disk, −1 unknown
	coming   int64 // that the compactor is about to give back
	usedThen int64 // bytes used on the disk when free was read
	full     bool
	reason   string
}

// NewAccount returns an account that New makes ready.
func NewAccount(cfg Limits, deps AccountDeps) *Account {
	return &Account{cfg: cfg, deps: deps, free: -1, waits: deps.Registry.NewGate(limits.Spec{
		Name: "store.room", Path: "puts and downloads → waiting for an eviction to make room", Policy: "no_space",
	}, maxReserveWaits, 0)}
}

// usage is what is used now: a deferred object counts from its put on.
func (a *Account) usage() amount {
	t := a.deps.Backend.Totals()
	n := amount{Count: meta.Count{
		Objects: t.Objects.Load() + t.PendingObjects.Load() + a.objects.Load(),
		Bytes:   t.Bytes.Load() + t.OutboardBytes.Load() + t.PendingBytes.Load() + meta.PartialSize(a.evictor.deps.Partials.Bytes()) + a.bytes.Load(),
	}}
	n.local = n.Bytes
	if a.cfg.Remote {
		n.local -= t.LargeBytes.Load()
	}
	return n
}

// local is the part of e's charge that is on the node's own disk.
func (a *Account) local(e meta.Entry) int64 {
	if a.cfg.Remote && !meta.Small(e.Size) {
		return b3.OutboardSize(e.Size)
	}
	return meta.StoredSize(e.Size)
}

// poll asks the disk how much is free.
func (a *Account) poll() {
	free, coming := int64(-1), int64(0)
	if a.deps.Free != nil {
		if n, more, known := a.deps.Free(); known {
			free, coming = n, more
		}
	}
	used := a.usage().local - a.unwritten.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free, a.coming, a.usedThen = free, coming, used
}

// bounds computes the limits from the configuration and the disk. What the
// compactor is about to give back counts as free for evictions, or each would
// remove more before the space of the one before is there; for puts it does not.
func (a *Account) bounds() bounds {
	a.mu.Lock()
	free, coming, then := a.free, a.coming, a.usedThen
	a.mu.Unlock()
	none := amount{meta.Count{Objects: math.MaxInt64, Bytes: math.MaxInt64}, math.MaxInt64}
	b := bounds{none, none, none}
	lower := func(hard, trigger, low *int64, limit int64) {
		lowest := int64(float64(limit) * a.cfg.LowWater)
		*hard, *trigger, *low = min(*hard, limit), min(*trigger, lowest+(limit-lowest)/2), min(*low, lowest)
	}
	for _, limit := range []int64{a.cfg.MaxBytes, a.memoryCap()} {
		if limit > 0 {
			lower(&b.hard.Bytes, &b.trigger.Bytes, &b.low.Bytes, limit)
		}
	}
	if n := a.cfg.MaxObjects; n > 0 {
		lower(&b.hard.Objects, &b.trigger.Objects, &b.low.Objects, n)
	}
	if reserve := a.cfg.ReserveBytes; free >= 0 {
		limit := max(0, then+free+coming-2*reserve)
		b.hard.local = max(0, then+free-reserve)
		b.trigger.local = limit
		b.low.local = int64(float64(limit) * a.cfg.LowWater)
	}
	return b
}

// Taking is what a small object of n bytes takes while it is put: in RAM whole
// blocks.
func (a *Account) Taking(n int64) int64 {
	if a.cfg.MemoryBytes > 0 {
		return arena.Held(int(n))
	}
	return n
}

// memoryCap is how many bytes of objects the memory backend can hold; 0 for
// another backend. What the objects take beside them is left out: rounding, the
// parents of partial objects that are not counted, and objects that are removed
// and still being read.
func (a *Account) memoryCap() int64 {
	if a.cfg.MemoryBytes == 0 {
		return 0
	}
	limit, ram, used := a.cfg.MemoryBytes, a.deps.RAM(), a.usage().Bytes
	removed := max(0, ram.Used-ram.Wasted-used)
	return max(1, limit-meta.OutboardShare(limit)-ram.Wasted-removed)
}

// Space says how full the store is. It does no I/O and works in every phase.
func (g *Collector) Space() Space {
	a := g.deps.Account
	b := a.bounds()
	if !a.cfg.Remote { // all bytes are local
		b.hard.Bytes, b.low.Bytes = min(b.hard.Bytes, b.hard.local), min(b.low.Bytes, b.low.local)
	}
	sp := Space{Used: a.usage().Count, Max: b.hard.Count, Low: b.low.Count, Reserve: a.cfg.ReserveBytes, Again: b.again()}
	for _, n := range []*int64{&sp.Max.Bytes, &sp.Max.Objects, &sp.Low.Bytes, &sp.Low.Objects} {
		if *n == math.MaxInt64 {
			*n = 0
		}
	}
	a.mu.Lock()
	sp.Free, sp.Full, sp.FullReason = a.free, a.full, a.reason
	a.mu.Unlock()
	last := g.latest()
	sp.Evictable, sp.Pinned = last.Classes[Cache], last.Classes[Pinned]
	return sp
}

// squeezed reports whether the disk itself has little left. What was removed shows
// there when segments have been compacted, and not at once.
func (a *Account) squeezed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free >= 0 && a.free < 2*a.cfg.ReserveBytes
}

// judge decides whether writes are off, by what a put would meet: it shuts when
// there is no space for one more group and an eviction made none, and opens when
// there is space for spaceAgain.
func (a *Account) judge(use amount, b bounds) {
	vain := a.evictor.vain()
	why := "pins hold as much as the store may keep; unpin what is not needed, or raise store.max_bytes or store.max_objects"
	if open, _ := a.deps.Backend.Damages().Open(); open > 0 {
		vain, why = true, "nothing is evicted: "+BlockedBy(open)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	reserve := a.cfg.ReserveBytes
	put := func(n int64) amount {
		return amount{meta.Count{Objects: use.Objects + 1, Bytes: use.Bytes + n}, use.local + n}
	}
	switch {
	case a.free >= 0 && a.free < reserve+2*b3.GroupSize:
		a.full, a.reason = true, "the disk has less free than store.reserve_bytes; free disk space, or unpin what is not needed"
	case vain && put(meta.PartialSize(growth)).passes(b.hard):
		a.full, a.reason = true, why
	case a.full && !put(b.again()).passes(b.hard) && (a.free < 0 || a.free >= reserve+b.again()):
		a.full, a.reason = false, ""
	}
}
