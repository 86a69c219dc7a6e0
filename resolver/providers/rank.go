package providers

import (
	"math"
	"slices"
	"time"
)

// Traits holds the properties of a provider by which this node ranks it. The zero value
// is a stranger: nothing was measured, and nothing speaks against it.
type Traits struct {
	Breaker Breaker

	Served bool          // it sent verified bytes of the object, or of its directory
	RTT    time.Duration // until the first byte of an answer; 0: not measured
	Rate   float64       // bytes per second; 0: not measured

	OtherRegion bool          // it is not known to be in the region that the caller prefers
	Age         time.Duration // since its record was signed; below 0: it has no record
	Busy        bool          // it refused a request as busy a short time ago
	Wrong       float64       // claims that proved wrong, of any object; older ones count less
	Silent      float64       // requests that it was late with while another peer answered; older ones count less
}

// Breaker is the state of a peer's circuit breaker.
type Breaker uint8

// The states, the best first.
const (
	BreakerClosed   Breaker = iota // requests pass
	BreakerHalfOpen                // a few probes pass
	BreakerOpen                    // no request passes
)

// String returns the state in a word.
func (b Breaker) String() string {
	switch b {
	case BreakerHalfOpen:
		return "half_open"
	case BreakerOpen:
		return "open"
	case BreakerClosed:
	}
	return "closed"
}

// The constants of Cost. Times are what a caller loses by asking the provider
// before another one.
const (
	rankedBytes  = 1 << 20                // Cost counts the time for so many bytes
	unknownRTT   = 150 * time.Millisecond // of a peer that was not measured: dialing it is part of it
	unknownRate  = 10 << 20               // bytes per second of a peer that was not measured
	notServed    = 50 * time.Millisecond  // its claim is not proved
	otherRegion  = 40 * time.Millisecond  // more than a round trip within a region
	perDay       = 50 * time.Millisecond  // for each day since its record was signed
	oldest       = 2 * 24 * time.Hour     // records expire after a day; a clock may be wrong
	recentlyBusy = 250 * time.Millisecond // about what a busy peer asks to wait
	perWrong     = 500 * time.Millisecond // for each claim that proved wrong
	mostWrong    = 8.0                    // further ones do not count
	perSilent    = 150 * time.Millisecond // for each request that it was late with
	mostSilent   = 8.0                    // further ones do not count
)

// Cost returns the time that a caller should expect to spend on a provider, for [Rank]. It is the time until the first
// byte, the time for 1 MiB, and penalties for what makes success less likely. A trait that was not measured counts as
// mediocre. So a stranger is tried before a peer that is known to be slow.
//
// Cost never falls when one trait gets worse: RTT, Age, Wrong and Silent higher, Rate lower,
// Served lost, OtherRegion or Busy set. The state of the breaker is not in it, as
// Rank looks at it first.
func (t Traits) Cost() time.Duration {
	cost := min(t.RTT, math.MaxInt64/2) // what follows is far less than the other half
	if t.RTT <= 0 {
		cost = unknownRTT
	}
	rate := t.Rate
	if !(rate > 0) { // NaN too
		rate = unknownRate
	}
	cost += time.Duration(min(rankedBytes/rate, time.Hour.Seconds()) * float64(time.Second))
	if !t.Served {
		cost += notServed
	}
	if t.OtherRegion {
		cost += otherRegion
	}
	age := min(t.Age, oldest)
	if t.Age < 0 {
		age = oldest
	}
	cost += time.Duration(float64(perDay) * age.Hours() / 24)
	if t.Busy {
		cost += recentlyBusy
	}
	if wrong := min(t.Wrong, mostWrong); wrong > 0 {
		cost += time.Duration(wrong * float64(perWrong))
	}
	if silent := min(t.Silent, mostSilent); silent > 0 {
		cost += time.Duration(silent * float64(perSilent))
	}
	return min(cost, math.MaxInt64/2)
}

// Rank sorts providers, the best first:
//
//  1. by the state of their circuit breakers, because a request to a peer with an
//     open breaker is refused here;
//  2. by [Traits.Cost].
//
// Providers of equal rank keep their order, which is the order in which they were
// found. Rank is a pure function: of returns the traits of a provider and is called
// once for each.
func Rank[T any](all []T, of func(T) Traits) {
	type ranked struct {
		item    T
		breaker Breaker
		cost    time.Duration
	}
	list := make([]ranked, len(all))
	for i, item := range all {
		t := of(item)
		list[i] = ranked{item, t.Breaker, t.Cost()}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		if a.breaker != b.breaker {
			return int(a.breaker) - int(b.breaker)
		}
		switch {
		case a.cost < b.cost:
			return -1
		case a.cost > b.cost:
			return 1
		}
		return 0
	})
	for i := range list {
		all[i] = list[i].item
	}
}
