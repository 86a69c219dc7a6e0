// Package arena allocates bytes outside of the Go heap, under a hard cap. The memory is
// locked against swapping where the system allows, left out of core dumps, and invisible to
// the garbage collector.
//
// The space is divided into blocks of 1 KiB. An [Extent] is a chain of blocks, so any free
// block serves any request: there is no fragmentation, and rounding wastes less than one
// block for each extent. Blocks come from the lowest region that has a free one; a region
// that becomes empty is given back to the system, but for one. Freed bytes are zero before
// Free returns.
//
// One object: New reserves the space, Alloc returns an extent, WriteAt and ReadAt access
// it, Grow extends it, Free returns its blocks. The space is unmapped when every holder has
// called Release.
//
// The accounting of an Arena is safe for concurrent use. The owner of an extent guards its
// bytes: reads may overlap; writes, Grow and Free may not overlap with anything.
package arena

import (
	"errors"
	"fmt"
	"sync"
)

const (
	// Block is the unit of allocation in bytes.
	Block = 1 << 10
	// Region is the number of bytes that are given back to the system at once.
	Region = 4 << 20
	// MaxLimit is the largest cap in bytes.
	MaxLimit = (1<<32 - 2) * Block

	regionBlocks = Region / Block
	noBlock      = 1<<32 - 1
)

// ErrFull reports that an extent does not fit the cap.
var ErrFull = errors.New("the arena is full")

// Extent is a chain of blocks of an arena. It holds no pointer. The zero Extent is empty
// and valid in every arena.
type Extent struct {
	head uint32 // first block, when size > 0
	size uint32 // bytes
}

// Len returns the extent's length in bytes.
func (e Extent) Len() int { return int(e.size) }

func (e Extent) blocks() uint32 { return blocks(int(e.size)) }

func blocks(n int) uint32 { return uint32((n + Block - 1) / Block) }

// BlockSize returns how many bytes of the cap an extent of n bytes takes.
func BlockSize(n int) int64 { return int64(blocks(n)) * Block }

// Arena is the space. It lives until every holder has released it.
type Arena struct {
	space   space
	total   uint32    // blocks below the cap
	regions []*region // by number; nil until first used

	// lock: held across I/O, because memory that is given back to the system later could be in use again
	// by then
	mu          sync.Mutex // lock: leaf
	used        uint32     // blocks in extents
	touched     uint32     // blocks with RAM behind them: used since the system got them back
	bytes       int64      // length of the extents, without rounding
	lowestFree  int        // no region before it has a free block
	emptyRegion int        // an empty region that is not given back; -1 for none
	refs        int        // holders
}

// region is 4 MiB of the space; the last one may be smaller.
//
// Invariant: blocks [0, touched) are in extents or on the free list, which starts at free.
// The others are zero and have no RAM behind them.
type region struct {
	mem     []byte
	next    [regionBlocks]uint32 // block → the next one of its extent or of the free list
	free    uint32               // first block of the free list
	touched uint32
	used    uint32
}

// Stats are an arena's counters, in bytes.
type Stats struct {
	Limit   int64 // the cap
	Used    int64 // in extents, rounded up to blocks
	Wasted  int64 // the part of Used that is rounding
	Touched int64 // at most this much RAM is in use
	Locked  bool  // the memory is never written to swap
}

// New reserves limit bytes of address space; RAM is allocated when it is used. The caller
// is the first holder and calls Release. It fails when the system does not have that much.
func New(limit int64) (*Arena, error) {
	if limit < Block || limit > MaxLimit {
		return nil, fmt.Errorf("create an arena of %d bytes: it can have %d to %d", limit, Block, int64(MaxLimit))
	}
	total := uint32(limit / Block)
	s, err := reserve(int64(total) * Block)
	if err != nil {
		return nil, err
	}
	return &Arena{
		space: s, total: total, emptyRegion: -1, refs: 1,
		regions: make([]*region, (total+regionBlocks-1)/regionBlocks),
	}, nil
}

// LockError returns why the memory may be written to swap, nil when it is locked.
func (a *Arena) LockError() error { return a.space.lockError() }

// Retain adds a holder. The caller must hold the arena already.
func (a *Arena) Retain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refs++
}

// Release removes a holder. The last one unmaps the memory.
func (a *Arena) Release() {
	a.mu.Lock()
	a.refs--
	last := a.refs == 0
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
		Limit: int64(a.total) * Block, Used: used, Wasted: used - a.bytes, Touched: int64(a.touched) * Block,
		Locked: a.space.lockError() == nil,
	}
}

// Available returns how many bytes of the cap are not in extents.
func (a *Arena) Available() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(a.total-a.used) * Block
}

// Alloc returns an extent of n zero bytes, or ErrFull.
func (a *Arena) Alloc(n int) (Extent, error) { return a.Grow(Extent{}, n) }

// Grow extends e with zeros to n bytes and returns it. On ErrFull e is unchanged. Otherwise
// the old value must not be used again.
func (a *Arena) Grow(e Extent, n int) (Extent, error) {
	if n <= int(e.size) {
		return e, nil
	}
	need := blocks(n) - e.blocks()
	last := uint32(noBlock)
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
		b := a.takeBlock()
		if last == noBlock {
			e.head = b
		} else {
			a.regions[last/regionBlocks].next[last%regionBlocks] = b
		}
		last = b
	}
	e.size = uint32(n)
	return e, nil
}

// takeBlock returns a free block. There must be one. The caller holds mu.
func (a *Arena) takeBlock() uint32 {
	for {
		r := a.regions[a.lowestFree]
		if r == nil {
			r = &region{free: noBlock}
			a.regions[a.lowestFree] = r
		}
		if r.used < a.size(a.lowestFree) {
			break
		}
		a.lowestFree++
	}
	r := a.regions[a.lowestFree]
	if r.mem == nil {
		r.mem = a.space.region(int64(a.lowestFree)*Region, int(a.size(a.lowestFree))*Block)
	}
	if a.lowestFree == a.emptyRegion {
		a.emptyRegion = -1
	}
	r.used++
	at := r.free
	if at == noBlock {
		at = r.touched
		r.touched++
		a.touched++
	} else {
		at %= regionBlocks
		r.free = r.next[at]
	}
	return uint32(a.lowestFree)*regionBlocks + at
}

// size returns how many blocks region i has.
func (a *Arena) size(i int) uint32 { return min(regionBlocks, a.total-uint32(i)*regionBlocks) }

// Free returns the blocks of e. Its bytes are zero when Free returns, and e and its copies
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
		a.lowestFree = min(a.lowestFree, i)
		if r.used == 0 {
			a.releaseRegion(i)
		}
		b = after
	}
}

// releaseRegion gives the empty region i back to the system. It keeps one, so that an
// object that is stored and removed costs no system calls. The caller holds mu.
func (a *Arena) releaseRegion(i int) {
	if a.emptyRegion < 0 {
		a.emptyRegion = i
		return
	}
	r := a.regions[i]
	a.space.drop(r.mem)
	a.touched -= r.touched
	r.mem, r.free, r.touched = nil, noBlock, 0
}

func (r *region) block(at uint32) []byte { return r.mem[at*Block : (at+1)*Block] }

// walk returns the block that is steps blocks after b in its extent.
func (a *Arena) walk(b, steps uint32) uint32 {
	for ; steps > 0; steps-- {
		b = a.regions[b/regionBlocks].next[b%regionBlocks]
	}
	return b
}

// ReadAt copies the bytes of e from off on to p, and returns how many it copied.
func (a *Arena) ReadAt(e Extent, p []byte, off int) int {
	return a.eachRun(e, off, len(p), func(mem []byte, at int) { copy(p[at:], mem) })
}

// WriteAt copies p to e from off on, up to the end of e, and returns how many bytes it
// copied.
func (a *Arena) WriteAt(e Extent, p []byte, off int) int {
	return a.eachRun(e, off, len(p), func(mem []byte, at int) { copy(mem, p[at:]) })
}

// eachRun calls do for each contiguous run of memory in n bytes of e from off on. at is the
// offset of the run in these bytes. eachRun returns how many bytes there were.
func (a *Arena) eachRun(e Extent, off, n int, do func(mem []byte, at int)) int {
	if off < 0 || off >= int(e.size) {
		return 0
	}
	n = min(n, int(e.size)-off)
	b := a.walk(e.head, uint32(off/Block))
	for done := 0; done < n; {
		i := int(b / regionBlocks)
		r := a.regions[i]
		start := int(b%regionBlocks)*Block + (off+done)%Block
		last := start + n - done
		end := int(b%regionBlocks+1) * Block
		// Adjacent blocks form one run. The successor of an extent's last block is not followed.
		limit, base := min(last, len(r.mem)), i*regionBlocks
		for b = r.next[b%regionBlocks]; end < limit && int(b) == base+end/Block; b = r.next[b%regionBlocks] {
			end += Block
		}
		end = min(end, last)
		do(r.mem[start:end], done)
		done += end - start
	}
	return n
}
