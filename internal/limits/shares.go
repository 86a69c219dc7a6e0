package limits

import (
	"sync"
	"time"

	"allium/internal/linked"
	"allium/protocols/status"
)

// SharesConfig bounds what many keys ask together, and each of them.
type SharesConfig struct {
	PerSecond float64 // requests of all; 0: no rate
	Burst     int     // of all; ≥ 1 where there is a rate
	Each      int64   // places in flight of one key; 0: no bound
}

// The constants of [Shares].
const (
	activeFor  = time.Second // who asked that recently has a share
	restFor    = time.Minute // who did not ask for as long is forgotten
	maxShares  = 16_384      // keys remembered, about 200 bytes each
	reservePer = 8           // this part of the burst is only for who has not used up a share
)

// Shares is a rate that keys, such as clients, have in common, and places in
// flight that each has for itself. Nobody waits.
//
// The rate is fair without being divided: who asks alone may use all of it.
// Each key that asked within the last second has an equal share, a bucket of
// its own that refills at PerSecond ÷ their number. A request within the share
// is refused only when the whole rate is used up; one beyond it also when less
// than the reserve is left, an eighth of the burst. So what the others leave is
// not lost, and who asks ten times its share takes nothing from them.
//
// Invariants: all keys together never get more than Burst and PerSecond allow;
// at most maxShares keys, beside those in flight, are remembered; every method
// takes constant time, amortised.
type Shares[K comparable] struct {
	c    SharesConfig
	rate *meter      // nil: no rate
	each *GateFamily // nil: no bound

	mu      sync.Mutex
	tokens  float64 // of all
	at      time.Time
	known   map[K]*Share[K]
	active  linked.List[Share[K]] // asked within activeFor, in the order in which they asked last
	resting linked.List[Share[K]] // the others
}

// Share is what one key has of a Shares: a place in flight, until Leave.
type Share[K comparable] struct {
	of     *Shares[K]
	key    K
	tokens float64
	seen   time.Time // when it asked last, and tokens was right
	users  int       // places it has
	drain  drainRate
	list   *linked.List[Share[K]] // in which it is
	node   linked.Node[Share[K]]
}

// NewShares lists up to two limits: the rate, and the places of each key.
func NewShares[K comparable](r *Registry, rate, each Spec, c SharesConfig) *Shares[K] {
	s := &Shares[K]{c: c, tokens: float64(c.Burst), at: time.Now(), known: map[K]*Share[K]{}}
	if c.PerSecond > 0 {
		s.rate = r.add(rate, KindRate, max(1, int64(c.PerSecond)), nil)
	}
	if c.Each > 0 {
		s.each = r.NewGateFamily(each, c.Each)
	}
	return s
}

// Enter takes a place and a token for k. It returns status.Busy when k has all
// of its places, and status.RateLimit with the time until there is a token for
// it. Every success is matched by one Leave of what it returns, which is nil
// where nothing is bounded, as by a nil Shares.
func (s *Shares[K]) Enter(k K) (*Share[K], error) {
	if s == nil || s.rate == nil && s.each == nil {
		return nil, nil
	}
	a, used, wait, ok := s.enter(k, time.Now())
	switch {
	case !ok && wait > 0:
		s.rate.rejected.Add(1)
		return nil, status.BusyError(status.RateLimit, status.Limit{
			Name: s.rate.spec.Name, Current: s.rate.cap, Cap: s.rate.cap, RetryAfter: clampWait(wait.Round(time.Millisecond)),
		})
	case !ok:
		m := s.each.m
		m.rejected.Add(1)
		return nil, status.BusyError(status.Busy, status.Limit{Name: m.spec.Name, Current: used, Cap: m.cap, RetryAfter: clampWait(a.drain.wait(1))})
	case s.each != nil:
		s.each.moved(used-1, used)
		s.each.m.raise(used)
	}
	return a, nil
}

// enter returns how many places a has afterwards, and how long it takes until
// there is a token if that was what it lacked.
func (s *Shares[K]) enter(k K, now time.Time) (a *Share[K], used int64, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a = s.find(k, now)
	if s.each != nil && int64(a.users) >= s.c.Each {
		return a, int64(a.users), 0, false
	}
	if s.rate != nil {
		if wait, ok = s.take(a); !ok {
			return a, int64(a.users), wait, false
		}
	}
	a.users++
	return a, int64(a.users), 0, true
}

// Leave gives the place back.
func (a *Share[K]) Leave() {
	if a == nil {
		return
	}
	used := a.leave()
	if each := a.of.each; each != nil {
		each.moved(used+1, used)
		a.drain.done(1, time.Now())
	}
}

func (a *Share[K]) leave() (used int64) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.users--
	return int64(a.users)
}

// Len is how many keys are remembered.
func (s *Shares[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}

// find returns the share of k, which asks now, with its tokens, and forgets
// shares that are of no use any more.
func (s *Shares[K]) find(k K, now time.Time) *Share[K] {
	a := s.known[k]
	if a == nil {
		a = &Share[K]{of: s, key: k}
		s.known[k] = a
	} else {
		a.list.Remove(&a.node)
	}
	asked := a.seen
	a.seen = now
	a.enter(&s.active)
	for l := s.active.Oldest(); now.Sub(l.seen) > activeFor || s.active.Len() > maxShares; l = s.active.Oldest() {
		s.active.Remove(&l.node)
		l.enter(&s.resting)
	}
	s.forget(now)
	if d := now.Sub(s.at); d > 0 {
		s.tokens, s.at = min(float64(s.c.Burst), s.tokens+d.Seconds()*s.c.PerSecond), now
	}
	if asked.IsZero() {
		a.tokens = max(1, s.tokens/float64(s.active.Len())) // what there is: more could only be taken from others
	} else {
		a.tokens += max(0, now.Sub(asked).Seconds()) * s.own()
	}
	a.tokens = min(a.tokens, max(1, (float64(s.c.Burst)-s.reserve())/float64(s.active.Len())))
	return a
}

// forget drops who rested long, and more when there are too many.
func (s *Shares[K]) forget(now time.Time) {
	for range s.resting.Len() {
		l := s.resting.Oldest()
		if len(s.known) <= maxShares && now.Sub(l.seen) <= restFor {
			return
		}
		s.resting.Remove(&l.node)
		if l.users > 0 {
			l.enter(&s.resting) // look at it again after all others
			continue
		}
		delete(s.known, l.key)
	}
}

// enter makes a, which is in no list, the latest of l.
func (a *Share[K]) enter(l *linked.List[Share[K]]) {
	a.list = l
	l.Push(&a.node, a)
}

// own is how fast a share refills.
func (s *Shares[K]) own() float64 { return s.c.PerSecond / float64(s.active.Len()) }

func (s *Shares[K]) reserve() float64 { return float64(s.c.Burst / reservePer) }

// take takes a token for a, or says how long it takes until there is one.
func (s *Shares[K]) take(a *Share[K]) (wait time.Duration, ok bool) {
	if s.tokens >= 1 && (a.tokens >= 1 || s.tokens >= 1+s.reserve()) {
		s.tokens--
		a.tokens = max(0, a.tokens-1) // what others leave is not held against it
		return 0, true
	}
	missing := max((1-s.tokens)/s.c.PerSecond, min((1-a.tokens)/s.own(), (1+s.reserve()-s.tokens)/s.c.PerSecond))
	return max(1, time.Duration(missing*float64(time.Second))), false
}
