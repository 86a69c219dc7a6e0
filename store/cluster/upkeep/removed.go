package upkeep

import (
	"maps"
	"sync"
	"time"

	"allium/protocols/b3"
)

// removals has the numbers of removed targets of this node. It is safe for concurrent use.
type removals struct {
	mu   sync.Mutex         // lock: leaf
	seqs map[b3.Root]uint64 // at most maxActive
}

// note notes a removed target of an object. One of a further object is not noted when there are maxActive.
func (r *removals) note(root b3.Root, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seqs) < maxActive || r.seqs[root] > 0 {
		r.seqs[root] = max(r.seqs[root], seq)
	}
}

// of returns the number of the removed target of an object.
func (r *removals) of(root b3.Root) (seq uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seq, ok = r.seqs[root]
	return seq, ok
}

// expire forgets those that are older than keepRemoved.
func (r *removals) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.seqs, func(_ b3.Root, seq uint64) bool {
		return now.Sub(time.UnixMilli(int64(seq))) > keepRemoved
	})
}
