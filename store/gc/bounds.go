package gc

import (
	"math"

	"allium/store/meta"
)

// amount is what the store holds, or a bound of it. The bytes of large objects
// in a bucket are not local.
type amount struct {
	meta.Count
	local int64 // bytes on the node's own disk
}

func (a *amount) add(o candidate) {
	a.Count.Add(o.charge)
	a.local += o.local
}

// less is a without b.
func (a amount) less(b amount) amount {
	return amount{a.Minus(b.Count), a.local - b.local}
}

// passes reports whether a is above b in any way.
func (a amount) passes(b amount) bool {
	return a.Objects > b.Objects || a.Bytes > b.Bytes || a.local > b.local
}

// bounds are the limits in force.
type bounds struct {
	hard    amount // no put may pass it
	trigger amount // above it an eviction begins
	low     amount // and ends here
}

// excess is what use has above the low-water mark.
func (b bounds) excess(use amount) amount {
	n := use.less(b.low)
	return amount{meta.Count{Objects: max(0, n.Objects), Bytes: max(0, n.Bytes)}, max(0, n.local)}
}

// fits reports whether there is space for n after an eviction.
func (b bounds) fits(n meta.Count) bool {
	return (b.hard.Bytes == math.MaxInt64 || n.Bytes <= b.hard.Bytes-b.low.Bytes) &&
		(b.hard.Objects == math.MaxInt64 || n.Objects <= b.hard.Objects-b.low.Objects)
}

func (b bounds) over(use amount) bool { return use.passes(b.trigger) }

// spaceAgain is how many bytes must fit before writes that are off are on again,
// of a small store a 16th.
const spaceAgain = 1 << 20

func (b bounds) again() int64 {
	return min(spaceAgain, max(meta.PartialSize(growth), min(b.hard.Bytes, b.hard.local)/16))
}

// step is how much is asked for at a time, so that an eviction can make space
// for it.
func (b bounds) step() int64 {
	step := int64(math.MaxInt64)
	for _, d := range [][2]int64{{b.hard.Bytes, b.low.Bytes}, {b.hard.local, b.low.local}} {
		if d[0] != math.MaxInt64 {
			step = min(step, max(growth, (d[0]-d[1])/4))
		}
	}
	return step
}
