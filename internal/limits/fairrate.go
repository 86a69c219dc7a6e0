package limits

import (
	"math"
	"sync"
	"time"

	"allium/internal/linked"
	"allium/protocols/status"
)

// FairRateConfig has the bounds of a [FairRate].
type FairRateConfig struct {
	PerSecond float64 // requests a second of all keys; 0: no rate
	Burst     int     // tokens of all keys; ≥ 1 if there is a rate
	Each      int64   // requests in flight of each key, and waiting; 0: no bound

	Wait time.Duration // the longest wait for a token in Await; 0: nobody waits
}

// reserve returns how many tokens are reserved for keys within their share.
func (c FairRateConfig) reserve() float64 { return float64(c.Burst / reservePer) }

// The constants of [FairRate].
const (
	activeFor  = time.Second // how long after a request a key has a share
	restFor    = time.Minute // how long after its last request a key is forgotten
	maxShares  = 16_384      // how many keys are remembered, about 200 bytes each
	reservePer = 8           // 1/reservePer of the burst is reserved for keys within their share
	briefPer   = 20          // the line of a refused key: what its share serves in 1/briefPer of the wait
	shortLine  = 6           // no line of so many goes on growing: a browser has six connections
	growsFor   = 2           // looks in a row that find a line longer, 1/briefPer of the wait apart
	fewKeys    = 8           // fewer keys than these, all of them refused, do not make the rate full
)

// FairRate is a token bucket that keys, such as clients, share. It also bounds the
// requests in flight of each key. A request without a token is refused by Enter, and
// waits for one in Await.
//
// A key may use the whole rate while it is alone. Otherwise the rate is fair: each key that made a request within the
// last second has an equal share: a bucket that gets PerSecond ÷ (number of such keys) tokens a second. A request
// within the share of its key is refused only if the common bucket is empty. A request beyond the share is also refused
// if less than the reserve, an eighth of the burst, is left. So tokens that some keys do not use are not lost, and a
// key that asks for ten times its share takes nothing from the others.
//
// Requests that wait get tokens by the same rules: those of one key in the order of
// their arrival, and the keys one after another. A key that is alone can get tokens
// back with Refund.
//
// A long line is for bursts, and for keys that ask again when they are answered: their lines
// grow once. A key asks more than it gets if its line goes on growing, or if a request of it
// was refused within the last second. Of such a key only so many requests wait as get their
// turn within a twentieth of the wait. When it begins to, those that wait beyond that are
// refused, the oldest first, as CoDel drops the head of a standing queue (RFC 8289, section
// 4): they would be answered late, and so would all behind them. If requests wait, the registry
// shows as the line of the rate how many keys were refused within the last second, of those that
// have a share.
//
// Invariants: all keys together never get more than Burst and PerSecond allow, beside
// what was given back; at
// most maxShares keys are remembered, besides those with requests in flight; every
// method takes amortised constant time.
type FairRate[K comparable] struct {
	rate *meter
	each *meter // nil: there is never a bound of requests in flight

	stop    sync.Once
	stopped chan struct{} // closed by StopWaiting

	mu sync.Mutex // guards what follows, and the shares; lock: breaker
	c  FairRateConfig
	bucket
	known   map[K]*Share[K]       // the keys that are remembered
	active  linked.List[Share[K]] // keys with a request within activeFor, the latest last
	resting linked.List[Share[K]] // all other known keys
	waiting linked.List[Share[K]] // keys with requests that wait; the one that was served last is last
	timer   *time.Timer           // calls serveLate when the next token is due; nil: nobody has waited yet
}

// bucket holds the tokens that all keys share.
type bucket struct {
	tokens float64
	at     time.Time // when tokens was computed
}

// Share is the share that one key has of a FairRate.
type Share[K comparable] struct {
	of       *FairRate[K]
	key      K
	tokens   float64
	seen     time.Time // of the last request, and when tokens was computed
	refused  time.Time // of the last request that was refused for lack of a token
	inFlight int
	drain    drainRate
	list     *linked.List[Share[K]] // the list that it is in
	node     linked.Node[Share[K]]
	line     linked.List[rateWaiter] // requests that wait, in the order of their arrival
	growth   lineGrowth
	inLine   linked.Node[Share[K]] // its place in waiting
}

// NewFairRate lists up to two limits: rate, and each for the requests in flight of
// each key. One without a name is not listed, and must be 0 in c for ever.
func NewFairRate[K comparable](r *Registry, rate, each Spec, c FairRateConfig) *FairRate[K] {
	s := &FairRate[K]{
		rate: newMeter(rate, KindRate, 1), bucket: bucket{tokens: float64(c.Burst)}, known: map[K]*Share[K]{},
		stopped: make(chan struct{}),
	}
	if c.Wait > 0 {
		s.rate.line = &meterLine{length: func() (refused, keys int64) { return overload(s) }}
		if r != nil {
			s.rate.line.filled = r.filled
		}
	}
	if rate.Name != "" {
		r.list(s.rate)
	}
	if each.Name != "" {
		s.each = r.add(each, KindGate, 1, func() int64 { return busiest(s) })
	}
	s.Set(c)
	return s
}

// Set replaces the bounds. Requests in flight stay so, and those that wait go on at the new rate.
func (s *FairRate[K]) Set(c FairRateConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.refill(now)
	if s.c.PerSecond == 0 {
		s.tokens = float64(c.Burst)
	}
	s.c, s.at = c, now
	s.tokens = min(s.tokens, float64(c.Burst))
	s.rate.size.Store(int64(math.Ceil(c.PerSecond)))
	if s.each != nil {
		s.each.size.Store(c.Each)
	}
	if s.waiting.Len() > 0 {
		s.serve(now)
	}
}

// unbounded reports whether there is neither a rate nor a bound of requests in flight.
func unbounded[K comparable](s *FairRate[K]) bool {
	return s == nil || s.rate.cap() == 0 && (s.each == nil || s.each.cap() == 0)
}

// Enter admits a request of k: it takes a token and counts the request as in flight
// until Leave. It returns status.Busy if k has as many in flight as it may, and
// status.RateLimit with the time until there is a token for k. The caller matches
// every success with one Leave of the result, also of a nil one: if nothing is
// bounded, or s is nil, the result is nil.
func (s *FairRate[K]) Enter(k K) (*Share[K], error) {
	if unbounded(s) {
		return nil, nil
	}
	a, used, wait, ok := s.enter(k, time.Now())
	switch {
	case !ok && wait > 0:
		a.refuse()
		return nil, s.rate.reject(status.RateLimit, s.rate.cap(), wait.Round(time.Millisecond))
	case !ok:
		return nil, s.each.reject(status.Busy, used, a.drain.wait(1))
	}
	return a, nil
}

// Try is Enter for callers that wait with Await if there is no token: nothing is counted as
// refused.
func (s *FairRate[K]) Try(k K) (a *Share[K], ok bool) {
	if unbounded(s) {
		return nil, true
	}
	if a, _, _, ok = s.enter(k, time.Now()); ok {
		return a, true
	}
	return nil, false
}

// admit counts one more request of the key in flight, and returns how many there are now. The caller holds the
// FairRate's mu.
func (a *Share[K]) admit() (used int64) {
	s := a.of
	if a.inFlight == 0 {
		a.drain.begin(instant(a.seen.Sub(processStart)))
	}
	a.inFlight++
	used = int64(a.inFlight)
	if s.c.Each > 0 {
		s.each.raise(used)
	}
	return used
}

// Refund gives the token of a request back if its key is the only one that made requests
// within the last second. It does nothing if a is nil.
func (a *Share[K]) Refund() {
	if a == nil {
		return
	}
	s := a.of
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.expire(now)
	if s.active.Len() == 1 && a.list == &s.active && s.waiting.Len() == a.waits() {
		s.restore(a, now)
	}
}

// refuse notes that a request of the key was refused for lack of a token.
func (a *Share[K]) refuse() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.refuseAt(time.Now())
}

// overload returns how many keys were refused within activeFor, of how many that have a share.
func overload[K comparable](s *FairRate[K]) (refused, keys int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c.PerSecond == 0 {
		return 0, 0
	}
	now := time.Now()
	s.expire(now)
	for a := range s.active.FromOldest {
		if now.Sub(a.refused) <= activeFor {
			refused++
		}
	}
	return refused, max(fewKeys, int64(s.active.Len()))
}

// busiest returns how many requests the key has in flight that has most, or 0 if they are not bounded.
func busiest[K comparable](s *FairRate[K]) (most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c.Each > 0 {
		for _, a := range s.known {
			most = max(most, int64(a.inFlight))
		}
	}
	return most
}

// waits returns 1 if requests of the key wait, else 0.
func (a *Share[K]) waits() int { return min(1, a.line.Len()) }

// giveBack gives the token of a request back that did not use it.
func (a *Share[K]) giveBack() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.restore(a, time.Now())
}

// restore adds a token for a. The caller holds s.mu.
func (s *FairRate[K]) restore(a *Share[K], now time.Time) {
	s.tokens = min(float64(s.c.Burst), s.tokens+1)
	a.tokens = min(float64(s.c.Burst), a.tokens+1) // find bounds it further
	if s.waiting.Len() > 0 {
		s.serve(now)
	}
}

// enter returns the share of k and how many requests it has in flight afterwards.
// If ok is false for lack of a token, wait is the time until there is one, else 0.
func (s *FairRate[K]) enter(k K, now time.Time) (a *Share[K], used int64, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enterLocked(k, now)
}

// enterLocked is enter with s.mu held.
func (s *FairRate[K]) enterLocked(k K, now time.Time) (a *Share[K], used int64, wait time.Duration, ok bool) {
	a = s.find(k, now)
	if s.c.Each > 0 && int64(a.inFlight) >= s.c.Each {
		return a, int64(a.inFlight), 0, false
	}
	if s.c.PerSecond > 0 && (a.line.Len() > 0 || !s.take(a)) {
		return a, int64(a.inFlight), s.missing(a, a.line.Len()), false
	}
	return a, a.admit(), 0, true
}

// Leave ends a request that Enter admitted. It does nothing if a is nil.
func (a *Share[K]) Leave() {
	if a == nil {
		return
	}
	s := a.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.inFlight--; s.c.Each > 0 {
		a.drain.done(1, clock())
	}
}

// find returns the share of k, which makes a request now. It refills the share and
// the common bucket, and forgets shares that rested long. The caller holds s.mu.
func (s *FairRate[K]) find(k K, now time.Time) *Share[K] {
	a := s.known[k]
	if a == nil {
		a = &Share[K]{of: s, key: k}
		s.known[k] = a
	} else {
		a.list.Remove(&a.node)
	}
	before := a.seen
	a.seen = now
	a.push(&s.active)
	s.expire(now)
	s.forget(now)
	s.refill(now)
	if before.IsZero() {
		a.tokens = max(1, s.tokens/float64(s.active.Len())) // more would take tokens from the other shares
	} else {
		a.tokens += max(0, now.Sub(before).Seconds()) * s.shareRate()
	}
	a.tokens = min(a.tokens, max(1, (float64(s.c.Burst)-s.c.reserve())/float64(s.active.Len())))
	return a
}

// refill adds the tokens to the common bucket that it got meanwhile. The caller holds s.mu.
func (s *FairRate[K]) refill(now time.Time) {
	if d := now.Sub(s.at); d > 0 {
		s.tokens, s.at = min(float64(s.c.Burst), s.tokens+d.Seconds()*s.c.PerSecond), now
	}
}

// expire moves keys to resting that made no request within activeFor, and those beyond
// maxShares. The caller holds s.mu.
func (s *FairRate[K]) expire(now time.Time) {
	for s.active.Len() > 0 {
		l := s.active.Oldest()
		if now.Sub(l.seen) <= activeFor && s.active.Len() <= maxShares {
			return
		}
		s.active.Remove(&l.node)
		l.push(&s.resting)
	}
}

// forget drops the keys that have rested for restFor, and others that rest if more
// than maxShares are known. It keeps keys with requests in flight.
func (s *FairRate[K]) forget(now time.Time) {
	for range s.resting.Len() {
		l := s.resting.Oldest()
		if len(s.known) <= maxShares && now.Sub(l.seen) <= restFor {
			return
		}
		s.resting.Remove(&l.node)
		if l.inFlight > 0 {
			l.push(&s.resting) // it is looked at again after all others
			continue
		}
		l.list = nil
		delete(s.known, l.key)
	}
}

// push makes a, which is in no list, the latest of l.
func (a *Share[K]) push(l *linked.List[Share[K]]) {
	a.list = l
	l.Push(&a.node, a)
}

// shareRate returns how many tokens a share gets each second.
func (s *FairRate[K]) shareRate() float64 { return s.c.PerSecond / float64(s.active.Len()) }

// take takes a token for a if there is one. While keys wait, only those that wait get tokens beyond their share. The
// caller holds s.mu.
func (s *FairRate[K]) take(a *Share[K]) bool {
	if s.c.PerSecond == 0 {
		return true
	}
	beyond := s.tokens >= 1+s.c.reserve() && (s.waiting.Len() == 0 || a.line.Len() > 0)
	if s.tokens < 1 || a.tokens < 1 && !beyond {
		return false
	}
	s.tokens--
	a.tokens = max(0, a.tokens-1) // a request beyond the share makes no debt
	return true
}

// missing returns how long it takes until there is a token for a request of a with so many
// before it. The caller holds s.mu.
func (s *FairRate[K]) missing(a *Share[K], before int) time.Duration {
	wanted := 1 + float64(before)
	common := (wanted - s.tokens) / s.c.PerSecond
	within := (wanted - a.tokens) / s.shareRate()
	if s.waiting.Len() == a.waits() { // no other key waits for what is beyond the shares
		within = min(within, (wanted+s.c.reserve()-s.tokens)/s.c.PerSecond)
	}
	return max(1, time.Duration(max(common, within)*float64(time.Second)))
}
