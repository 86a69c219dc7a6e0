package limits

// Place is a place of a [FairGate] for an item of a [FairQueue]. The item takes
// the place when it is put in the queue. It gives the place back when it is shed,
// or when its owner calls Leave.
//
// Such a gate has as many places as the queue may have items, waiting and running
// together, and nothing else takes its places. So whenever the queue has space for
// an item, the gate has a place for it.
type Place[K comparable] struct {
	p     *FairGate[K]
	key   K
	taken bool // guarded by p.mu
}

// Place returns a place for k that is not taken yet.
func (p *FairGate[K]) Place(k K) *Place[K] { return &Place[K]{p: p, key: k} }

// Leave gives the place back if it is taken.
func (l *Place[K]) Leave() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.taken {
		l.taken = false
		l.p.remove(l.key, 1)
	}
}

// over reports whether the key may take no more places.
func (l *Place[K]) over() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.p.over(l.key, 1)
}

// take takes the place. The gate has a free one.
func (l *Place[K]) take() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.taken = true
	l.p.add(l.key, 1)
}

// refuse counts a refusal and returns it as status.Quota.
func (l *Place[K]) refuse() error { return l.p.quota(1) }

// place is a [Place] with any type of key. FairQueue calls its methods while it
// holds its own lock.
type place interface {
	over() bool
	take()
	Leave()
	refuse() error
}
