package resolver

import (
	"errors"
	"slices"
	"time"

	"allium/protocols/admission"
	"allium/protocols/object"
	"allium/protocols/status"
)

// took books a request that ended.
func (s *schedule) took(sp *span) error {
	s.spans = slices.DeleteFunc(s.spans, func(o *span) bool { return o == sp })
	p := sp.p
	p.inflight--
	if s.t.ingest != nil {
		s.overtake()
	}
	moved := sp.fresh+sp.extra > 0
	switch {
	case sp.hedge:
		s.r.m.hedge(sp)
	case sp.doubted:
		p.doubted--
	}
	if moved {
		p.fails, p.misses = 0, 0
		if p.limit > 0 {
			p.limit *= 2
		}
		s.r.served.Add(s.t.root, p.id)
	}
	switch err := sp.err; {
	case err == nil:
	case isFinal(err), s.work.Err() != nil:
		return err
	case sp.gaveUp != nil && (moved || !errors.Is(sp.gaveUp, errLate)):
		// no fault of the provider
	default:
		s.failed(sp, moved)
	}
	return nil
}

// overtake ends the requests whose groups came from elsewhere.
func (s *schedule) overtake() {
	for _, o := range s.spans {
		if !o.twin || o.gaveUp != nil {
			continue
		}
		next, hi := o.next.Load(), o.hi.Load()
		if firstMissing(s.t.ingest, next, hi) < hi {
			continue
		}
		if o.first.Load() == 0 && time.Since(o.asked) >= unmeasured {
			o.giveUp(errLate)
		} else {
			o.giveUp(errOvertook)
		}
	}
}

// failed books a request that brought less than it should.
func (s *schedule) failed(sp *span, moved bool) {
	p, err := sp.p, sp.err
	o := status.Of(err)
	s.r.m.failures.WithLabelValues(o.String()).Inc()
	s.r.log.Debug("provider failed", "root", s.t.root, "peer", p.id, "lookup_id", s.t.lookupID, "reason", o, "err", err)
	s.tried.note(p.id, err)
	switch {
	case o == status.NotFound:
		s.missed(sp)
		return
	case o == status.BreakerOpen && p.inflight > 0: // it is on probation, with as many requests as that allows
		p.rest = time.Now().Add(admission.Backoff(0))
		return
	case !worthRetrying(o, moved) && !errors.Is(sp.gaveUp, errLate):
		p.lost = true
		return
	}
	s.retry(p)
}

// retry lets a provider rest before it is asked again, and no more when it
// failed too often.
func (s *schedule) retry(p *provider) {
	p.fails++
	if p.fails >= s.r.cfg.Tries {
		p.lost = true
		return
	}
	s.r.m.retries.Inc()
	p.rest = time.Now().Add(admission.Backoff(p.fails - 1))
}

// missed books that a provider does not have a span. When it may have another
// it is asked whether it has any.
func (s *schedule) missed(sp *span) {
	p := sp.p
	p.misses++
	n := sp.last - sp.lo
	switch {
	case p.misses > mostMisses, s.t.ingest != nil && s.t.groups() == 1:
		p.lost = true
	case !p.partial:
		p.lost = true // until it says otherwise
		s.asking++
		s.wg.Go(func() {
			h := heard{p: p}
			h.have, h.err = s.r.have(s.work, p.id, s.t.root)
			select {
			case s.heard <- h:
			case <-s.work.Done():
			}
		})
	case sp.proof:
		p.noProof = true
	case n > minSpan:
		p.limit = max(n/4, minSpan)
	case n > 1 && p.fine:
		p.limit = 1
	default:
		p.lacks = append(p.lacks, run{sp.lo, sp.last})
		p.lost = len(p.lacks) > mostMisses
	}
}

// hear takes what a provider says it has.
func (s *schedule) hear(h heard) {
	s.asking--
	switch {
	case h.err != nil:
		s.tried.note(h.p.id, h.err)
	case h.have == object.Partial:
		h.p.lost, h.p.partial, h.p.limit = false, true, minSpan
	}
}

// error says what became of the providers.
func (s *schedule) error() error {
	return s.tried.error(s.t.root, s.t.lookupID, s.t.src.failure())
}

// hopeless reports whether nothing can come any more unless a provider that is
// known takes it.
func (s *schedule) hopeless() bool {
	return !s.recruiting && s.exhausted && s.t.src.count() <= len(s.providers) && s.asking == 0
}
