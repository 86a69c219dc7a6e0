package schedule

import (
	"cmp"
	"slices"
	"time"
)

// supply is the providers, and whether there may be more.
type supply struct {
	providers []*provider

	known     int  // candidates that the driver knows of
	finding   bool // Find has no answer yet
	exhausted bool // the last answer was that there is none
	questions int  // without an answer
}

// hopeless reports whether nothing can come any more unless a provider that is
// known takes it.
func (s *supply) hopeless() bool {
	return !s.finding && s.exhausted && s.known <= len(s.providers) && s.questions == 0
}

// fastestFirst returns the providers by their pace.
func (s *supply) fastestFirst() []*provider {
	sorted := slices.Clone(s.providers)
	slices.SortStableFunc(sorted, func(a, b *provider) int { return cmp.Compare(b.rate, a.rate) })
	return sorted
}

// free is how many providers may be asked.
func (s *supply) free(now time.Duration) (n int) {
	for _, p := range s.providers {
		if p.free(now) {
			n++
		}
	}
	return n
}

// partOf is p's part of the pace of all that are not lost; those of unknown pace
// are taken for average.
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

// someoneHas reports whether a provider that has rested by then may deliver group
// g.
func (s *supply) someoneHas(g int64, then time.Duration) bool {
	return slices.ContainsFunc(s.providers, func(p *provider) bool {
		return p.free(then) && !p.lacking(Run{g, g + 1})
	})
}

// lookCloser lets the providers that have a part, but not the run around group g,
// be asked for single groups. It reports whether there is one.
func (s *supply) lookCloser(g int64) (some bool) {
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

// askSlow lets the providers be asked again that were lost because others, which
// are lost now, were faster. It reports whether there is one.
func (s *supply) askSlow() (some bool) {
	for _, p := range s.providers {
		if p.standing == slow {
			p.standing, p.fails, some = good, p.fails-1, true
		}
	}
	return some
}
