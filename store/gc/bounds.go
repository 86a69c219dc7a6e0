package gc

import (
	"math"

	"allium/store/meta"
)

// amount is a size or a bound of the store. The bytes of large objects in a bucket are not
// local.
type amount struct {
	meta.Count
	local int64 // bytes on the node's own disk
}

func (a *amount) add(o candidate) {
	a.Count.Add(o.charge)
	a.local += o.local
}

// minus returns a without b.
func (a amount) minus(b amount) amount {
	return amount{a.Minus(b.Count), a.local - b.local}
}

// exceeds reports whether a is above b in any of its parts.
func (a amount) exceeds(b amount) bool {
	return a.Objects > b.Objects || a.Bytes > b.Bytes || a.local > b.local
}

// bounds are the limits in force, with math.MaxInt64 for no limit.
type bounds struct {
	hard    amount // no put may exceed it
	trigger amount // above it an eviction begins
	low     amount // where the eviction ends
}

// excess returns by how much use exceeds the low-water mark.
func (b bounds) excess(use amount) amount {
	n := use.minus(b.low)
	return amount{meta.Count{Objects: max(0, n.Objects), Bytes: max(0, n.Bytes)}, max(0, n.local)}
}

// fitsAfterEviction reports whether n fits once the store is at its low-water mark.
func (b bounds) fitsAfterEviction(n meta.Count) bool {
	return (b.hard.Bytes == math.MaxInt64 || n.Bytes <= b.hard.Bytes-b.low.Bytes) &&
		(b.hard.Objects == math.MaxInt64 || n.Objects <= b.hard.Objects-b.low.Objects)
}

func (b bounds) needsEviction(use amount) bool { return use.exceeds(b.trigger) }

// maxReopenBytes bounds reopenBytes.
const maxReopenBytes = 1 << 20

// reopenBytes returns how many bytes must fit before a full store takes puts again: 1 MiB,
// or a 16th of a smaller bound.
func (b bounds) reopenBytes() int64 {
	return min(maxReopenBytes, max(meta.PartialSize(growth), min(b.hard.Bytes, b.hard.local)/16))
}

// reserveStep returns the most bytes to reserve at a time, so that one eviction can make
// space for them.
func (b bounds) reserveStep() int64 {
	step := int64(math.MaxInt64)
	for _, d := range [][2]int64{{b.hard.Bytes, b.low.Bytes}, {b.hard.local, b.low.local}} {
		if d[0] != math.MaxInt64 {
			step = min(step, max(growth, (d[0]-d[1])/4))
		}
	}
	return step
}
