package trace

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A lookup is an outlier when it took more than farBeyond times the p99 of its class, and at least
// leastOutlier: below that the scheduler alone makes such times.
const (
	farBeyond    = 4
	leastOutlier = 10 * time.Millisecond
)

// outliers has the durations of the latest lookups, by class: the kind, and how much came from peers.
type outliers struct {
	classes [numKinds * numSizes]durations
}

const (
	numKinds = 5 // the constants of Kind
	numSizes = 6 // a hit; no bytes; up to 64 KiB; up to 1 MiB; up to 16 MiB; more
)

// isHit stands for the bytes of a lookup that was answered at once.
const isHit = -1

// add takes the duration of a lookup, and reports whether it is an outlier.
func (o *outliers) add(k Kind, size int64, took time.Duration) bool {
	return o.classes[kindOf(k)*numSizes+sizeOf(size)].add(took)
}

func kindOf(k Kind) int {
	switch k {
	case Open:
		return 0
	case Fetch:
		return 1
	case Tree:
		return 2
	case Providers:
		return 3
	default:
		return 4
	}
}

func sizeOf(n int64) int {
	switch {
	case n == isHit:
		return 0
	case n == 0:
		return 1
	case n <= 64<<10:
		return 2
	case n <= 1<<20:
		return 3
	case n <= 16<<20:
		return 4
	default:
		return 5
	}
}

// durations is a histogram of durations in which old ones fade, and its p99. Its methods are safe for
// concurrent use; the numbers may be a few off when several goroutines call them.
type durations struct {
	buckets [numBuckets]atomic.Uint32
	n       atomic.Uint32
	limit   atomic.Int64 // farBeyond times the p99; 0: not known yet
}

const (
	firstLog    = 10     // the first bucket begins at some microsecond
	numBuckets  = 4 * 32 // the last one begins after an hour
	leastKnown  = 128    // durations before the p99 is known
	judgeEvery  = 64     // durations between two looks for the p99
	mostCounted = 4096   // durations after which all counts are halved
)

// add counts d, and reports whether it is far beyond the p99 of what was counted before.
func (h *durations) add(d time.Duration) bool {
	limit := h.limit.Load()
	h.buckets[bucketOf(d)].Add(1)
	if n := h.n.Add(1); n >= leastKnown && n%judgeEvery == 0 {
		h.judge(n)
	}
	return limit > 0 && d > max(time.Duration(limit), leastOutlier)
}

// judge sets limit, and halves the counts when there are many.
func (h *durations) judge(n uint32) {
	above, most := uint32(0), n/100
	i := numBuckets - 1
	for ; i > 0; i-- {
		if above += h.buckets[i].Load(); above > most {
			break
		}
	}
	h.limit.Store(int64(farBeyond * edgeOf(i)))
	if n < mostCounted {
		return
	}
	left := uint32(0)
	for i := range h.buckets {
		half := h.buckets[i].Load() / 2
		h.buckets[i].Store(half)
		left += half
	}
	h.n.Store(left)
}

// bucketOf returns the bucket of d: four for each power of two of nanoseconds, from 2^firstLog.
func bucketOf(d time.Duration) int {
	ns := uint64(max(1<<firstLog, d))
	log := bits.Len64(ns) - 1
	quarter := int(ns >> (log - 2) & 3)
	return min((log-firstLog)<<2+quarter, numBuckets-1)
}

// edgeOf returns the end of bucket i.
func edgeOf(i int) time.Duration {
	log, quarter := i>>2+firstLog, i&3
	return time.Duration(4+quarter+1) << (log - 2)
}
