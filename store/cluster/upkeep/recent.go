package upkeep

import (
	"maps"
	"sync"
	"time"

	"allium/protocols/b3"
)

// recent has times of objects, for a while. It is safe for concurrent use.
type recent struct {
	limit int           // objects
	age   time.Duration // after which a time is forgotten

	mu sync.Mutex         // lock: leaf
	at map[b3.Root]uint64 // Unix milliseconds, at most limit
}

func newRecent(limit int, age time.Duration) recent {
	return recent{limit: limit, age: age, at: map[b3.Root]uint64{}}
}

// note notes a time of an object, if it is later than the one that is known. Old ones make room; while there are
// too many others, a new object is not noted.
func (r *recent) note(root b3.Root, at uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.at) >= r.limit {
		maps.DeleteFunc(r.at, func(_ b3.Root, at uint64) bool { return r.old(at, now) })
	}
	if _, known := r.at[root]; known || len(r.at) < r.limit {
		r.at[root] = max(r.at[root], at)
	}
}

// of returns the latest time of an object, in Unix milliseconds. ok is false if there is none, or it is too long ago.
func (r *recent) of(root b3.Root, now time.Time) (at uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok = r.at[root]
	return at, ok && !r.old(at, now)
}

func (r *recent) old(at uint64, now time.Time) bool {
	return now.Sub(time.UnixMilli(int64(at))) > r.age
}
