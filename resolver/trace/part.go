package trace

import (
	"sync"
	"sync/atomic"

	"allium/internal/limits"
)

// part holds records in the order in which they ended, within a bound on their number and one on
// their bytes. The oldest leaves first.
type part struct {
	entries, most int
	usage         *limits.Usage

	mu      sync.Mutex // lock: leaf
	records []sized    // a ring: n records from first on
	first   int
	n       int

	used    atomic.Int64 // bytes; written under mu
	evicted atomic.Int64
}

// sized is a lookup that has ended, and how many bytes its record takes.
type sized struct {
	*Lookup
	size int
}

func newPart(r *limits.Registry, name, path string, entries, most int) *part {
	p := &part{entries: entries, most: most, records: make([]sized, entries)}
	p.usage = r.NewUsage(limits.Spec{
		Name: "resolver.traces_" + name, Path: path, Policy: "the oldest is dropped, also beyond 1,024 lookups",
	}, int64(most), p.used.Load)
	return p
}

// add puts a lookup into the part. A record larger than the part cannot occur, because maxBytes is
// far below the share of a part.
func (p *part) add(l *Lookup, size int) {
	p.mu.Lock()
	for p.n == p.entries || p.n > 0 && int(p.used.Load())+size > p.most {
		oldest := &p.records[p.first]
		p.used.Add(-int64(oldest.size))
		*oldest = sized{}
		p.first = (p.first + 1) % p.entries
		p.n--
		p.evicted.Add(1)
	}
	p.records[(p.first+p.n)%p.entries] = sized{l, size}
	p.n++
	p.used.Add(int64(size))
	p.mu.Unlock()
	p.usage.Grown()
}

// all returns the lookups, the oldest first.
func (p *part) all() []*Lookup {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Lookup, p.n)
	for i := range all {
		all[i] = p.records[(p.first+i)%p.entries].Lookup
	}
	return all
}

// count returns the number of records.
func (p *part) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// budget bounds the bytes of the running lookups.
type budget struct {
	usage *limits.Usage
	used  atomic.Int64
}

func newBudget(r *limits.Registry) *budget {
	b := &budget{}
	b.usage = r.NewUsage(limits.Spec{
		Name: "resolver.traces_running", Path: "running lookups → why",
		Policy: "lookups leave out details; beyond 1,024 lookups a new one is not recorded",
	}, runningBytes, b.used.Load)
	return b
}

// reserve takes n bytes if there are so many.
func (b *budget) reserve(n int) bool {
	if b.used.Add(int64(n)) > runningBytes {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

// release gives n bytes back.
func (b *budget) release(n int) { b.used.Add(-int64(n)) }

// end gives back what a lookup that ends has reserved, and raises the peak.
func (b *budget) end(n int) {
	b.usage.Grown()
	b.release(n)
}
