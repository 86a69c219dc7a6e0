// Package arena keeps bytes in RAM outside of the Go heap, under a hard cap:
// locked against swapping where the system allows, left out of core dumps, and
// never looked at by the garbage collector.
//
// The space is cut into blocks of 1 KiB. An [Extent] is a chain of them, so any
// free block serves any request: the cap is exact, nothing is ever too
// scattered to be used, and what rounding wastes is under one block for each
// extent. Blocks are taken from the lowest region that has some; a region that
// becomes empty goes back to the system. What is freed is zeroed before Free
// returns.
//
// An Arena's accounting is safe for concurrent use. The bytes of one extent are
// guarded by whoever owns it: reads may overlap, writes and Free may not.
package arena

import (
	"errors"
	"fmt"
	"sync"
)

const (
	// Block is the unit of allocation in bytes.
	Block = 1 << 10
	// Region is how many bytes are given back to the system at once.
	Region = 4 << 20
	// MaxLimit is the largest cap in bytes.
	MaxLimit = (1<<32 - 2) * Block

	regionBlocks = Region / Block
	none         = 1<<32 - 1 // no block
)

// ErrFull is returned when the cap leaves no room.
var ErrFull = errors.New("the arena is full")

// Extent is some bytes of an arena. It holds no pointer. The zero Extent is
// empty and always valid.
type Extent struct {
	head uint32 // first block, when size > 0
	size uint32 // bytes
}

// Len is the extent's length in bytes.
func (e Extent) Len() int { return int(e.size) }

func (e Extent) blocks() uint32 { return blocks(int(e.size)) }

func blocks(n int) uint32 { return uint32((n + Block - 1) / Block) }

// Held is how many bytes of the cap n bytes take.
func Held(n int) int64 { return int64(blocks(n)) * Block }

// Arena is the space. It lives until every holder has released it.
type Arena struct {
	space   space
	total   uint32    // blocks below the cap
	regions []*region // by number; nil until first used

	mu      sync.Mutex
	used    uint32 // blocks in extents
	fresh   uint32 // blocks that were touched and not given back
	bytes   int64  // that were asked for
	low     int    // no region before it has a free block
	spare   int    // an empty region that is kept, -1 for none
	holders int
}

// region is 4 MiB of the space, the last one less.
//
// Invariant: blocks [0, fresh) are in extents or on the free list, which links
// free of them; the others are zero and were not touched since the system got
// them back.
type region struct {
	mem   []byte
	next  [regionBlocks]uint32 // block → the next one of its extent or of the free list
	free  uint32               // first block of the free list
	fresh uint32
	used  uint32
}

// Stats are an arena's counters, in bytes.
type Stats struct {
	Limit   int64 // the cap
	Used    int64 // in extents, rounded up to blocks
	Wasted  int64 // of Used, lost to that rounding
	Touched int64 // at most this much RAM is behind it
	Locked  bool  // it is never written to swap
}

// New reserves limit bytes of address space; RAM comes with use. The caller
// holds the arena until it calls Release. An error says that the system does
// not give that much.
func New(limit int64) (*Arena, error) {
	if limit < Block || limit > MaxLimit {
		return nil, fmt.Errorf("an arena of %d bytes: it can have %d to %d", limit, Block, int64(MaxLimit))
	}
	total := uint32(limit / Block)
	s, err := reserve(int64(total) * Block)
	if err != nil {
		return nil, err
	}
	return &Arena{
		space: s, total: total, spare: -1, holders: 1,
		regions: make([]*region, (total+regionBlocks-1)/regionBlocks),
	}, nil
}

// LockError says why the space may be written to swap, nil when it is not.
func (a *Arena) LockError() error { return a.space.lockError() }

// Retain adds a holder, who is one already.
func (a *Arena) Retain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holders++
}

// Release takes a holder away. After the last one the memory is gone.
func (a *Arena) Release() {
	a.mu.Lock()
	a.holders--
	last := a.holders == 0
	a.mu.Unlock()
	if last {
		a.space.close()
	}
}

// Stats returns the counters.
func (a *Arena) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := int64(a.used) * Block
	return Stats{
		Limit: int64(a.total) * Block, Used: used, Wasted: used - a.bytes, Touched: int64(a.fresh) * Block,
		Locked: a.space.lockError() == nil,
	}
}

// Left is how many bytes of the cap are left.
func (a *Arena) Left() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(a.total-a.used) * Block
}

// Alloc returns an extent of n zero bytes, or ErrFull.
func (a *Arena) Alloc(n int) (Extent, error) { return a.Grow(Extent{}, n) }

// Grow makes e n bytes long by adding zeros, or returns ErrFull and leaves it
// as it was. It is a write to e, whose old value must not be used again.
func (a *Arena) Grow(e Extent, n int) (Extent, error) {
	if n <= int(e.size) {
		return e, nil
	}
	need := blocks(n) - e.blocks()
	last := uint32(none)
	if e.size > 0 {
		last = a.walk(e.head, e.blocks()-1)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if need > a.total-a.used {
		return e, ErrFull
	}
	a.used += need
	a.bytes += int64(n) - int64(e.size)
	for ; need > 0; need-- {
		b := a.take()
		if last == none {
			e.head = b
		} else {
			a.regions[last/regionBlocks].next[last%regionBlocks] = b
		}
		last = b
	}
	e.size = uint32(n)
	return e, nil
}

// take returns a free block, of which there is one. mu is held.
func (a *Arena) take() uint32 {
	for {
		r := a.regions[a.low]
		if r == nil {
			r = &region{free: none}
			a.regions[a.low] = r
		}
		if r.used < a.size(a.low) {
			break
		}
		a.low++
	}
	r := a.regions[a.low]
	if r.mem == nil {
		r.mem = a.space.region(int64(a.low)*Region, int(a.size(a.low))*Block)
	}
	if a.low == a.spare {
		a.spare = -1
	}
	r.used++
	at := r.free
	if at == none {
		at = r.fresh
		r.fresh++
		a.fresh++
	} else {
		at %= regionBlocks
		r.free = r.next[at]
	}
	return uint32(a.low)*regionBlocks + at
}

// size is how many blocks region i has.
func (a *Arena) size(i int) uint32 { return min(regionBlocks, a.total-uint32(i)*regionBlocks) }

// Free gives e back. Its bytes are zero when Free returns, and e and its copies
// must not be used again.
func (a *Arena) Free(e Extent) {
	if e.size == 0 {
		return
	}
	n := e.blocks()
	for b, left := e.head, n; left > 0; left-- {
		r := a.regions[b/regionBlocks]
		clear(r.block(b % regionBlocks))
		b = r.next[b%regionBlocks]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= n
	a.bytes -= int64(e.size)
	for b := e.head; n > 0; n-- {
		i := int(b / regionBlocks)
		r, at := a.regions[i], b%regionBlocks
		after := r.next[at]
		r.next[at], r.free = r.free, b
		r.used--
		a.low = min(a.low, i)
		if r.used == 0 {
			a.emptied(i)
		}
		b = after
	}
}

// emptied gives region i back to the system, but for one that is kept, so that
// an object that comes and goes costs no system calls. mu is held.
func (a *Arena) emptied(i int) {
	if a.spare < 0 {
		a.spare = i
		return
	}
	r := a.regions[i]
	a.space.drop(r.mem)
	a.fresh -= r.fresh
	r.mem, r.free, r.fresh = nil, none, 0
}

func (r *region) block(at uint32) []byte { return r.mem[at*Block : (at+1)*Block] }

// walk returns the block that is steps after b in its extent.
func (a *Arena) walk(b, steps uint32) uint32 {
	for ; steps > 0; steps-- {
		b = a.regions[b/regionBlocks].next[b%regionBlocks]
	}
	return b
}

// ReadAt copies bytes of e from off on to p and returns how many there were.
func (a *Arena) ReadAt(e Extent, p []byte, off int) int {
	return a.move(e, off, len(p), func(mem []byte, at int) { copy(p[at:], mem) })
}

// WriteAt copies p to e from off on, up to the end of e, and returns how many
// bytes that were.
func (a *Arena) WriteAt(e Extent, p []byte, off int) int {
	return a.move(e, off, len(p), func(mem []byte, at int) { copy(mem, p[at:]) })
}

// move calls do with each run of memory in n bytes of e from off on, and with
// where the run is in them.
func (a *Arena) move(e Extent, off, n int, do func(mem []byte, at int)) int {
	if off < 0 || off >= int(e.size) {
		return 0
	}
	n = min(n, int(e.size)-off)
	b := a.walk(e.head, uint32(off/Block))
	for done := 0; done < n; {
		i := int(b / regionBlocks)
		r := a.regions[i]
		start := int(b%regionBlocks)*Block + (off+done)%Block
		want := start + n - done
		end := int(b%regionBlocks+1) * Block
		// Blocks that lie one after the other are one run. What follows the
		// last block of an extent is not looked at.
		for b = r.next[b%regionBlocks]; end < min(want, len(r.mem)) && int(b) == i*regionBlocks+end/Block; b = r.next[b%regionBlocks] {
			end += Block
		}
		end = min(end, want)
		do(r.mem[start:end], done)
		done += end - start
	}
	return n
}
