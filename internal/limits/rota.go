package limits

// rota decides who is served next: a lane of items for each key, made on demand
// and dropped when it is empty and nothing of it runs. It is the scheduling of
// [Lanes] without its lock and its waiting.
//
// Invariants: items of a lane leave in the order they came; a lane runs another
// item only while it runs fewer than workers are free, so that some are left for
// who comes next, whatever the others do; of those that may, who runs fewest is
// next, and of these each in turn. No method takes longer when there are more
// lanes.
type rota[K comparable, T any] struct {
	capacity int // items waiting in all lanes
	workers  int // items of all lanes running

	waiting int
	running int
	lanes   map[K]*lane[K, T]
	turns   []ring[K, T] // turns[n]: lanes with items that run n, the next one first
	byLen   []ring[K, T] // byLen[n]: lanes with n+1 items; as long as the longest ever was
	longest int          // of all lanes, in items
}

// lane is what one key has waiting and running.
type lane[K comparable, T any] struct {
	key     K
	items   deque[T]
	running int
	listed  bool // in turns[running]
	hooks   [2]hook[K, T]
}

// hook is a lane's place in a ring.
type hook[K comparable, T any] struct{ prev, next *lane[K, T] }

// The rings that a lane is in.
const (
	hookTurns = iota
	hookLen
)

func newRota[K comparable, T any](capacity, workers int) *rota[K, T] {
	return &rota[K, T]{capacity: capacity, workers: workers, lanes: map[K]*lane[K, T]{}}
}

func (r *rota[K, T]) full() bool { return r.waiting == r.capacity }

// put adds an item to the end of its lane. The rota is not full.
func (r *rota[K, T]) put(k K, v T) {
	l := r.lanes[k]
	if l == nil {
		l = &lane[K, T]{key: k}
		r.lanes[k] = l
	}
	r.resize(l, func() { l.items.pushBack(v) })
	r.list(l)
}

// get takes the oldest item of the lane that is next; false: no lane may be
// served. done ends what get began.
func (r *rota[K, T]) get() (v T, ok bool) {
	free := r.workers - r.running
	for n := 0; n < min(free, len(r.turns)); n++ {
		l := r.turns[n].first
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

// done says that an item of the lane of k runs no more.
func (r *rota[K, T]) done(k K) {
	l := r.lanes[k]
	r.run(l, -1)
	r.list(l)
	r.drop(l)
}

// run changes how many items of a lane run, which takes its turn from it.
func (r *rota[K, T]) run(l *lane[K, T], n int) {
	r.unlist(l)
	l.running += n
	r.running += n
}

// shed removes and returns the newest item of the longest lane. The rota is not
// empty.
func (r *rota[K, T]) shed() (v T) {
	l := r.byLen[r.longest-1].first
	r.resize(l, func() { v = l.items.popBack() })
	if l.items.n == 0 {
		r.unlist(l)
	}
	r.drop(l)
	return v
}

// shorter reports whether the lane of k would be shorter than the longest with
// one item more.
func (r *rota[K, T]) shorter(k K) bool {
	n := 0
	if l := r.lanes[k]; l != nil {
		n = l.items.n
	}
	return n+1 < r.longest
}

// list gives a lane its turn after all others that run as many, if it has items
// and no turn yet.
func (r *rota[K, T]) list(l *lane[K, T]) {
	if l.listed || l.items.n == 0 {
		return
	}
	l.listed = true
	for len(r.turns) <= l.running {
		r.turns = append(r.turns, ring[K, T]{})
	}
	r.turns[l.running].add(l, hookTurns)
}

// unlist takes its turn from a lane that has one.
func (r *rota[K, T]) unlist(l *lane[K, T]) {
	if l.listed {
		l.listed = false
		r.turns[l.running].remove(l, hookTurns)
	}
}

// drop forgets a lane that is of no use any more.
func (r *rota[K, T]) drop(l *lane[K, T]) {
	if l.items.n == 0 && l.running == 0 {
		delete(r.lanes, l.key)
	}
}

// resize moves a lane between the rings of lengths while change adds an item
// or takes one.
func (r *rota[K, T]) resize(l *lane[K, T], change func()) {
	if before := l.items.n; before > 0 {
		r.byLen[before-1].remove(l, hookLen)
		r.waiting -= before
	}
	change()
	now := l.items.n
	if now > len(r.byLen) {
		r.byLen = append(r.byLen, ring[K, T]{})
	}
	if now > 0 {
		r.byLen[now-1].add(l, hookLen)
		r.waiting += now
	}
	r.longest = max(r.longest, now)
	for r.longest > 0 && r.byLen[r.longest-1].first == nil {
		r.longest-- // by one at most: a lane changes by one item
	}
}

// ring is a list of lanes, the oldest first.
type ring[K comparable, T any] struct{ first, last *lane[K, T] }

func (g *ring[K, T]) add(l *lane[K, T], h int) {
	l.hooks[h] = hook[K, T]{prev: g.last}
	if g.last == nil {
		g.first = l
	} else {
		g.last.hooks[h].next = l
	}
	g.last = l
}

func (g *ring[K, T]) remove(l *lane[K, T], h int) {
	at := l.hooks[h]
	if at.prev == nil {
		g.first = at.next
	} else {
		at.prev.hooks[h].next = at.next
	}
	if at.next == nil {
		g.last = at.prev
	} else {
		at.next.hooks[h].prev = at.prev
	}
	l.hooks[h] = hook[K, T]{}
}

// deque is a queue that both ends are taken from, in a slice that doubles.
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

// clear takes an item out, so that the slice does not keep it alive.
func (d *deque[T]) clear(i int) (v T) {
	var zero T
	v, d.buf[i] = d.buf[i], zero
	return v
}
