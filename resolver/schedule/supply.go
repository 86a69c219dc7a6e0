package schedule

import (
	"cmp"
	"slices"
	"time"
)

// supply is the known providers, and whether there may be more.
type supply struct {
	providers []*provider

	known     int  // candidates that the driver knows
	finding   bool // Find was not answered yet
	exhausted bool // the last answer to Find was NoneFound
	questions int  // Questions that were not answered yet
}

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

// free returns how many providers may be asked at the time now.
func (s *supply) free(now time.Duration) (n int) {
	for _, p := range s.providers {
		if p.free(now) {
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
		return p.free(then) && !p.lacking(Run{g, g + 1})
	})
}

// retrySingly lets providers that lack the run around group g, but have a part of
// the object, be asked for single groups. It reports whether there is one.
func (s *supply) retrySingly(g int64) (some bool) {
	for _, p := range s.providers {
		i := slices.IndexFunc(p.lacks, func(l Run) bool { return l.Lo <= g && g < l.Hi && l.Hi-l.Lo > 1 })
		if p.standing != good || i < 0 {
			continue
		}
		p.lacks = slices.Delete(p.lacks, i, i+1)
		p.fine, p.limit, some = true, 1, true
	}
	return some
}

// retrySlow lets slow providers be asked again, because the faster ones are lost.
// It reports whether there is one.
func (s *supply) retrySlow() (some bool) {
	for _, p := range s.providers {
		if p.standing == slow {
			p.standing, p.fails, some = good, p.fails-1, true
		}
	}
	return some
}
