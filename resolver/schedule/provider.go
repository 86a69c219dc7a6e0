package schedule

import (
	"cmp"
	"slices"
	"time"
)

// standing says whether a provider may be asked.
type standing uint8

const (
	good   standing = iota // may be asked
	slow                   // others were faster; may be asked again when those are lost
	unsure                 // lacked a run; may be asked again when it says that it has others
	lost                   // is not asked for this object again
)

// provider is a peer that may have the object.
type provider struct {
	claim
	id   ProviderID
	rate float64 // measured bytes per second; 0 when unknown
	rtt  time.Duration

	inflight  int
	hedged    int           // its requests that are hedged by another provider
	fails     int           // requests in a row that delivered nothing
	notBefore time.Duration // it is not asked before this time
	standing  standing
	away      bool // it has failed in a way that may pass
}

// claim describes the groups of a provider. It is not proved.
type claim struct {
	part    *part // what it has; nil: all, as far as is known
	asked   bool  // Question was not answered yet
	window  int64 // the first group of the window that it was asked for
	noProof bool  // it cannot prove the size
	missing int   // answers in a row that it lacks the run
}

// offers returns the first run of r that the provider may have.
func (c *claim) offers(r Run) Run {
	if c.part == nil {
		return r
	}
	return c.part.within(r)
}

// has reports whether the provider may have all of r.
func (c *claim) has(r Run) bool { return c.offers(r) == r }

// free reports whether p may be asked at the time now.
func (p *provider) free(now time.Duration) bool { return p.standing == good && now >= p.notBefore }

// become gives p a standing, unless it has a worse one.
func (p *provider) become(s standing) { p.standing = max(p.standing, s) }

// mayReturn reports whether p is lost and may return.
func (p *provider) mayReturn() bool { return p.away && p.standing != good }

// providers are those of a transfer, by their number.
type providers []*provider

// fastestFirst returns the providers, those with the highest rate first.
func (all providers) fastestFirst() []*provider {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *provider) int { return cmp.Compare(b.rate, a.rate) })
	return sorted
}

// available returns how many providers that may have all may be asked at the time now.
func (all providers) available(now time.Duration) (n int) {
	for _, p := range all {
		if p.free(now) && p.part == nil {
			n++
		}
	}
	return n
}

// active returns how many providers have a request in flight.
func (all providers) active() (n int) {
	for _, p := range all {
		if p.inflight > 0 {
			n++
		}
	}
	return n
}

// partOf returns p's share, from 0 to 1, of the summed rate of all good
// providers. A provider of unknown rate counts as average.
func (all providers) partOf(p *provider) float64 {
	var sum, known, live float64
	for _, o := range all {
		if o.standing != good {
			continue
		}
		live++
		if o.rate > 0 {
			sum += o.rate
			known++
		}
	}
	if p.rate > 0 {
		return p.rate / (sum + sum/known*(live-known))
	}
	return 1 / max(live, 1)
}

// someoneHas reports whether a provider that may be asked at the time then may
// have group g.
func (all providers) someoneHas(g int64, then time.Duration) bool {
	return slices.ContainsFunc(all, func(p *provider) bool {
		return p.free(then) && p.has(Run{g, g + 1})
	})
}

// retrySlow lets slow providers be asked again, because the faster ones are lost.
// It reports whether there is one.
func (all providers) retrySlow() (some bool) {
	for _, p := range all {
		if p.standing == slow {
			p.standing, p.notBefore, p.fails, some = good, 0, max(0, p.fails-1), true
		}
	}
	return some
}

// growing reports whether a provider with a part may have more soon.
func (all providers) growing() bool {
	return slices.ContainsFunc(all, func(p *provider) bool {
		return p.standing == good && p.part != nil && p.part.still < maxStill
	})
}

// spares reports whether p, which has all, is asked for nothing that providers with a part have: one of them is
// faster.
func (all providers) spares(p *provider) bool {
	return p.part == nil && slices.ContainsFunc(all, func(o *provider) bool {
		return o.part != nil && o.standing == good && o.rate > p.rate
	})
}
