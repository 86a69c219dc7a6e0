package schedule

import (
	"cmp"
	"slices"
	"time"
)

// supply is the known providers, and whether there may be more.
type supply struct {
	providers []*provider

	known     int      // candidates that the driver knows
	finding   bool     // Find was not answered yet
	exhausted bool     // the last answer to Find was NoneFound
	questions int      // Questions that were not answered yet
	looks     searches // among connected peers
	common    common
}

// Known sets how many candidates the driver knows, found ones included.
func (s *supply) Known(n int) { s.known = n }

// Found answers Find with a provider.
func (s *supply) Found() ProviderID {
	s.finding = false
	s.providers = append(s.providers, &provider{id: ProviderID(len(s.providers))})
	return ProviderID(len(s.providers) - 1)
}

// NoneFound answers Find: the driver has no other candidate.
func (s *supply) NoneFound() { s.finding, s.exhausted = false, true }

// Measured sets how fast a provider is: bytes per second, 0 when unknown, and the
// time to the first byte of an answer.
func (s *supply) Measured(id ProviderID, rate float64, rtt time.Duration) {
	p := s.providers[id]
	p.rate, p.rtt = rate, rtt
}

// Away says that a provider, whose last request has failed, may return: it was unreachable, silent or busy.
func (s *supply) Away(id ProviderID) { s.providers[id].away = true }

// hopeless reports whether no other provider can join any more.
func (s *supply) hopeless() bool {
	return !s.finding && s.exhausted && s.known <= len(s.providers) && s.questions == 0
}

// fastestFirst returns the providers, those with the highest rate first.
func (s *supply) fastestFirst() []*provider {
	sorted := slices.Clone(s.providers)
	slices.SortStableFunc(sorted, func(a, b *provider) int { return cmp.Compare(b.rate, a.rate) })
	return sorted
}

// free returns how many providers that may have all may be asked at the time now.
func (s *supply) free(now time.Duration) (n int) {
	for _, p := range s.providers {
		if p.free(now) && p.part == nil {
			n++
		}
	}
	return n
}

// active returns how many providers have a request in flight.
func (s *supply) active() (n int) {
	for _, p := range s.providers {
		if p.inflight > 0 {
			n++
		}
	}
	return n
}

// partOf returns p's share, from 0 to 1, of the summed rate of all good
// providers. A provider of unknown rate counts as average.
func (s *supply) partOf(p *provider) float64 {
	var all, known, live float64
	for _, o := range s.providers {
		if o.standing != good {
			continue
		}
		live++
		if o.rate > 0 {
			all += o.rate
			known++
		}
	}
	if p.rate > 0 {
		return p.rate / (all + all/known*(live-known))
	}
	return 1 / max(live, 1)
}

// someoneHas reports whether a provider that may be asked at the time then may
// have group g.
func (s *supply) someoneHas(g int64, then time.Duration) bool {
	return slices.ContainsFunc(s.providers, func(p *provider) bool {
		return p.free(then) && p.has(Run{g, g + 1})
	})
}

// retrySlow lets slow providers be asked again, because the faster ones are lost.
// It reports whether there is one.
func (s *supply) retrySlow() (some bool) {
	for _, p := range s.providers {
		if p.standing == slow {
			p.standing, p.notBefore, p.fails, some = good, 0, max(0, p.fails-1), true
		}
	}
	return some
}
