package limits

import "time"

// Place is one place of [Portions] for an item of [Lanes]. The item takes the
// place when it is put in the queue. It gives the place back when it makes room
// for another item, or when its owner calls Leave.
//
// The portions have as many places as the lanes have items, waiting and running,
// so a free place in the lanes is a free place in the portions. Their places are
// taken this way only.
type Place[K comparable] struct {
	p     *Portions[K]
	key   K
	taken bool // guarded by p.mu
}

// Place returns a place for k, not yet taken.
func (p *Portions[K]) Place(k K) *Place[K] { return &Place[K]{p: p, key: k} }

// Leave gives the place back if it is taken.
func (l *Place[K]) Leave() {
	if l.leave() {
		l.p.m.drain.done(1, time.Now())
	}
}

func (l *Place[K]) leave() (was bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	was, l.taken = l.taken, false
	if was {
		l.p.remove(l.key)
	}
	return was
}

// over reports whether the key has its part of the places.
func (l *Place[K]) over() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.p.over(l.key)
}

// take takes the place.
func (l *Place[K]) take() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.taken = true
	l.p.add(l.key)
}

// refuse counts a refusal and returns it as status.Quota.
func (l *Place[K]) refuse() error { return l.p.quota(l.p.m.cap - l.p.Free()) }

// place is a [Place] of any key. Lanes calls it under its lock.
type place interface {
	over() bool
	take()
	Leave()
	refuse() error
}
