package sweep

import (
	"iter"
	"time"
)

// recent is a map whose entries expire between half of life and life after they were put. It
// holds at most most entries. When it is full, the older half is dropped.
type recent[K comparable, V any] struct {
	most int
	life time.Duration

	young, old map[K]V
	since      time.Time // of young
}

func (r *recent[K, V]) put(k K, v V, now time.Time) {
	r.age(now)
	if _, ok := r.young[k]; !ok && len(r.young) >= r.most/2 {
		r.turn(now)
	}
	delete(r.old, k)
	r.young[k] = v
}

func (r *recent[K, V]) get(k K, now time.Time) (V, bool) {
	r.age(now)
	if v, ok := r.young[k]; ok {
		return v, true
	}
	v, ok := r.old[k]
	return v, ok
}

// all yields the entries that the last put or get left.
func (r *recent[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, half := range []map[K]V{r.young, r.old} {
			for k, v := range half {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// age drops expired entries.
func (r *recent[K, V]) age(now time.Time) {
	switch age := now.Sub(r.since); {
	case r.young == nil || age >= r.life:
		r.turn(now)
		r.old = nil
	case age >= r.life/2:
		r.turn(r.since.Add(r.life / 2))
	}
}

func (r *recent[K, V]) turn(since time.Time) {
	r.old, r.young, r.since = r.young, make(map[K]V), since
}
