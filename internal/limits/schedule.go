package limits

// schedule decides which item of a [FairQueue] runs next. It does neither lock nor
// wait. Each key has a keyQueue, which is made on demand and dropped when nothing of
// the key waits or runs.
//
// Invariants: items of a key leave in the order in which they came. A key starts another item only while it runs fewer
// items than there are free workers, so some workers stay free for keys that come later. The next key is the one that
// runs the fewest items, among those that may start one. Keys that run equally many take turns. The time that a method
// takes does not depend on the number of keys.
type schedule[K comparable, T any] struct {
	capacity int // bound of waiting
	workers  int // bound of running

	waiting int // items of all keys
	running int // items of all keys
	keys    map[K]*keyQueue[K, T]
	ready   []ring[K, T] // ready[n] has the keys with items that run n, the next to be served first
	byLen   []ring[K, T] // byLen[n] has the keys with n+1 items; never shrinks
	longest int          // number of items of the longest keyQueue
}

// keyQueue has the items of one key that wait, and the number that run.
type keyQueue[K comparable, T any] struct {
	key     K
	items   deque[T]
	running int
	listed  bool // in ready[running]
	links   [2]link[K, T]
}

// link is the place of a keyQueue in a list.
type link[K comparable, T any] struct{ prev, next *keyQueue[K, T] }

// The lists that a keyQueue is in, as indexes of its links.
const (
	inReady = iota
	inByLen
)

func newSchedule[K comparable, T any](capacity, workers int) *schedule[K, T] {
	return &schedule[K, T]{capacity: capacity, workers: workers, keys: map[K]*keyQueue[K, T]{}}
}

// full reports whether capacity items wait.
func (r *schedule[K, T]) full() bool { return r.waiting == r.capacity }

// put adds an item to the end of the queue of k. The schedule must not be full.
func (r *schedule[K, T]) put(k K, v T) {
	l := r.keys[k]
	if l == nil {
		l = &keyQueue[K, T]{key: k}
		r.keys[k] = l
	}
	r.resize(l, func() { l.items.pushBack(v) })
	r.list(l)
}

// get removes and returns the oldest item of the key that is next, and counts it as
// running until done. It returns false if no key may start an item.
func (r *schedule[K, T]) get() (v T, ok bool) {
	free := r.workers - r.running
	for n := 0; n < min(free, len(r.ready)); n++ {
		l := r.ready[n].first
		if l == nil {
			continue
		}
		r.run(l, 1)
		r.resize(l, func() { v = l.items.popFront() })
		r.list(l)
		return v, true
	}
	return v, false
}

// done notes that an item of k does not run any more.
func (r *schedule[K, T]) done(k K) {
	l := r.keys[k]
	r.run(l, -1)
	r.list(l)
	r.drop(l)
}

// run adds n to the number of items that run, and unlists the key. The caller lists
// it again.
func (r *schedule[K, T]) run(l *keyQueue[K, T], n int) {
	r.unlist(l)
	l.running += n
	r.running += n
}

// shed removes and returns the newest item of the longest keyQueue. The schedule
// must not be empty.
func (r *schedule[K, T]) shed() (v T) {
	l := r.byLen[r.longest-1].first
	r.resize(l, func() { v = l.items.popBack() })
	if l.items.n == 0 {
		r.unlist(l)
	}
	r.drop(l)
	return v
}

// shorter reports whether the queue of k, with one item more, would be shorter than
// the longest.
func (r *schedule[K, T]) shorter(k K) bool {
	n := 0
	if l := r.keys[k]; l != nil {
		n = l.items.n
	}
	return n+1 < r.longest
}

// list appends a key that has items to the ready keys that run as many, unless it
// is listed.
func (r *schedule[K, T]) list(l *keyQueue[K, T]) {
	if l.listed || l.items.n == 0 {
		return
	}
	l.listed = true
	for len(r.ready) <= l.running {
		r.ready = append(r.ready, ring[K, T]{})
	}
	r.ready[l.running].add(l, inReady)
}

// unlist removes a key from the ready keys if it is listed.
func (r *schedule[K, T]) unlist(l *keyQueue[K, T]) {
	if l.listed {
		l.listed = false
		r.ready[l.running].remove(l, inReady)
	}
}

// drop forgets a key without waiting or running items.
func (r *schedule[K, T]) drop(l *keyQueue[K, T]) {
	if l.items.n == 0 && l.running == 0 {
		delete(r.keys, l.key)
	}
}

// resize calls change, which adds or removes one item of l, and moves l to the list
// of its new length.
func (r *schedule[K, T]) resize(l *keyQueue[K, T], change func()) {
	if before := l.items.n; before > 0 {
		r.byLen[before-1].remove(l, inByLen)
		r.waiting -= before
	}
	change()
	now := l.items.n
	if now > len(r.byLen) {
		r.byLen = append(r.byLen, ring[K, T]{})
	}
	if now > 0 {
		r.byLen[now-1].add(l, inByLen)
		r.waiting += now
	}
	r.longest = max(r.longest, now)
	for r.longest > 0 && r.byLen[r.longest-1].first == nil {
		r.longest-- // at most once, as a length changes by one
	}
}

// ring is a linked list of keys, the oldest first.
type ring[K comparable, T any] struct{ first, last *keyQueue[K, T] }

// add appends l. which is the list: inReady or inByLen.
func (g *ring[K, T]) add(l *keyQueue[K, T], which int) {
	l.links[which] = link[K, T]{prev: g.last}
	if g.last == nil {
		g.first = l
	} else {
		g.last.links[which].next = l
	}
	g.last = l
}

// remove removes l, which is in the list.
func (g *ring[K, T]) remove(l *keyQueue[K, T], which int) {
	at := l.links[which]
	if at.prev == nil {
		g.first = at.next
	} else {
		at.prev.links[which].next = at.next
	}
	if at.next == nil {
		g.last = at.prev
	} else {
		at.next.links[which].prev = at.prev
	}
	l.links[which] = link[K, T]{}
}

// deque is a double-ended queue in a ring buffer that doubles when it is full.
type deque[T any] struct {
	buf   []T
	start int
	n     int
}

func (d *deque[T]) pushBack(v T) {
	if d.n == len(d.buf) {
		buf := make([]T, max(1, 2*d.n))
		for i := range d.n {
			buf[i] = d.buf[(d.start+i)%len(d.buf)]
		}
		d.buf, d.start = buf, 0
	}
	d.buf[(d.start+d.n)%len(d.buf)] = v
	d.n++
}

func (d *deque[T]) popFront() T {
	v := d.clear(d.start)
	d.start = (d.start + 1) % len(d.buf)
	d.n--
	return v
}

func (d *deque[T]) popBack() T {
	d.n--
	return d.clear((d.start + d.n) % len(d.buf))
}

// clear removes and returns an item, so that buf does not keep it alive.
func (d *deque[T]) clear(i int) (v T) {
	var zero T
	v, d.buf[i] = d.buf[i], zero
	return v
}
