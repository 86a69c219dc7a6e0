package resolver

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/object"
)

// schedule says who is asked for what in one transfer. The goroutine of the
// transfer runs it and alone touches what is not marked as shared; requests
// run in goroutines of their own, at most urgentSpans for each provider, and
// come back through channels.
type schedule struct {
	t    *transfer
	r    *Resolver
	work context.Context
	wg   sync.WaitGroup

	ended   chan *span
	proofs  chan int64 // sizes that were proved
	need    chan struct{}
	found   chan found
	heard   chan heard
	granted chan grant

	permit     func()             // held while requests are in flight
	unask      context.CancelFunc // ends the wait for the permit; nil while there is none
	spans      []*span            // in flight
	providers  []*provider
	tried      *tried
	recruiting bool // a source has been asked for
	exhausted  bool // there was none
	asking     int  // questions to providers that did not have a span
	raced      time.Time
	low        int64     // no group before it is missing
	doubled    int64     // groups that were asked for twice
	whole      time.Time // when the object was found to be
	until      time.Time // of the time without users; zero while there are some
}

// found is what a source turned out to be.
type found struct {
	peer peer.AddrInfo
	ok   bool
}

// heard is how much of the object a provider says it has.
type heard struct {
	p    *provider
	have object.Presence
	err  error
}

// grant is the answer of the gate of fetches.
type grant struct {
	release func()
	err     error
}

// The bounds of a transfer.
const (
	usualSpans   = 2                // requests in flight to one provider: one, and the next when it ends soon
	urgentSpans  = 4                // likewise, when a reader waits
	linger       = 2 * time.Second  // a transfer that nobody waits for stays open so long for the next range
	moreFrom     = 2 << 20          // bytes left that are worth another provider
	mostMisses   = 256              // spans that a provider does not have, in a row and in all
	allDoubled   = 4 << 20          // bytes that may be asked for twice, and
	doubledPart  = 16               // one in so many of those that came
	maxLingering = 64               // transfers that do so at one time
	never        = 1000 * time.Hour // nothing to wait for
)

func newSchedule(t *transfer) *schedule {
	return &schedule{
		t: t, r: t.r, tried: newTried(),
		ended: make(chan *span), proofs: make(chan int64), need: make(chan struct{}), found: make(chan found),
		heard: make(chan heard), granted: make(chan grant),
	}
}

// run returns nil when the object is whole, errQuit when nobody waits for it,
// and otherwise the reason why it cannot be had. No request is in flight then.
func (s *schedule) run(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	s.work = work
	defer func() {
		cancel()
		s.wg.Wait()
		s.unpermit()
		s.busy()
	}()
	s.wg.Go(s.recruit)
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		now := time.Now()
		wake, done := s.settled(now)
		if done {
			return nil
		}
		var err error
		if wake.IsZero() {
			if wake, err = s.look(now); err != nil {
				return err
			}
		}
		timer.Reset(time.Until(wake))
		select {
		case sp := <-s.ended:
			if err = s.took(sp); err != nil && s.complete() {
				err = nil // it does not matter any more
			}
		case size := <-s.proofs:
			err = s.proved(size)
		case f := <-s.found:
			s.take(f)
		case h := <-s.heard:
			s.hear(h)
		case g := <-s.granted:
			s.unask = nil
			s.permit, err = g.release, g.err
		case <-s.t.poke:
		case <-timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// settled reports whether the object is whole and nothing is in flight. Answers
// that are at their end are given until wake to come to it, so that their
// streams are good for the next request.
func (s *schedule) settled(now time.Time) (wake time.Time, done bool) {
	if !s.complete() {
		return time.Time{}, false
	}
	if s.whole.IsZero() {
		s.whole = now
	}
	s.overtake()
	wake = s.whole.Add(unmeasured)
	return wake, len(s.spans) == 0 || !wake.After(now)
}

// look does what there is to do now and returns when to look again at the
// latest.
func (s *schedule) look(now time.Time) (wake time.Time, err error) {
	if s.t.reread.Swap(false) {
		s.low = 0
		for _, w := range s.t.users() {
			w.low = 0
		}
	}
	wants := s.t.users()
	if len(wants) == 0 {
		return s.idle(now)
	}
	s.busy()
	if s.t.ingest == nil {
		return s.race(now, wants[0])
	}
	for _, w := range wants {
		w.bounds(s.t.size)
	}
	return s.assign(now, wants)
}

// idle ends what is in flight. When nobody came back for a while, or nothing is
// known yet, it ends the transfer.
func (s *schedule) idle(now time.Time) (wake time.Time, err error) {
	for _, sp := range s.spans {
		sp.giveUp(errUnwanted)
	}
	if len(s.spans) > 0 {
		return now.Add(never), nil
	}
	s.unpermit()
	if s.until.IsZero() {
		s.until = now
		if s.t.ingest != nil && s.r.lingering.Add(1) <= maxLingering {
			s.until = now.Add(linger)
		}
	}
	if now.Before(s.until) {
		return s.until, nil
	}
	if s.t.close() {
		return now, errQuit
	}
	return now.Add(never), nil // somebody came, and the nudge is on its way
}

// busy ends the time without users.
func (s *schedule) busy() {
	if !s.until.IsZero() && s.t.ingest != nil {
		s.r.lingering.Add(-1)
	}
	s.until = time.Time{}
}

// complete reports whether all groups are here.
func (s *schedule) complete() bool {
	t := s.t
	if t.ingest == nil {
		return false
	}
	n := t.groups()
	s.low = firstMissing(t.ingest, s.low, n)
	if s.low < n {
		return false
	}
	s.low = firstMissing(t.ingest, 0, n) // a group may have been lost since
	return s.low == n
}

// firstMissing returns the first group in [from, to) that is not here, or to.
func firstMissing(in Ingest, from, to int64) int64 {
	for from < to {
		end := min(to, from+lookedAt)
		if lo, hi := in.Missing(from, end); lo < hi {
			return lo
		}
		from = end
	}
	return to
}

// lookedAt is how many groups the ingest is asked about at once.
const lookedAt = 4096

// allowed reports whether requests may go out; if not, the gate was asked.
func (s *schedule) allowed() bool {
	if s.permit != nil {
		return true
	}
	if s.unask == nil {
		var ctx context.Context
		ctx, s.unask = context.WithCancel(s.work)
		s.wg.Go(func() {
			release, err := s.r.fetchGate.Acquire(ctx)
			select {
			case s.granted <- grant{release, err}:
			case <-ctx.Done():
				if err == nil {
					release()
				}
			}
		})
	}
	return false
}

// unpermit gives the place among the fetches back.
func (s *schedule) unpermit() {
	if s.unask != nil {
		s.unask()
		s.unask = nil
	}
	if s.permit != nil {
		s.permit()
		s.permit = nil
	}
}

// recruit brings one more source whenever it is asked to.
func (s *schedule) recruit() {
	for i := 0; ; {
		select {
		case <-s.need:
		case <-s.work.Done():
			return
		}
		p, ok, err := s.t.src.at(s.work, i)
		if err != nil { // the work is over
			return
		}
		if ok {
			i++
		}
		select {
		case s.found <- found{p, ok}:
		case <-s.work.Done():
			return
		}
	}
}

// more asks for another source, unless there is none.
func (s *schedule) more() {
	if s.recruiting || s.exhausted && s.t.src.count() <= len(s.providers) {
		return
	}
	s.recruiting, s.exhausted = true, false
	select {
	case s.need <- struct{}{}:
	case <-s.work.Done():
	}
}

func (s *schedule) take(f found) {
	s.recruiting = false
	if !f.ok {
		s.exhausted = true
		return
	}
	s.r.dialer.AddAddrs(f.peer)
	s.providers = append(s.providers, &provider{id: f.peer.ID, pace: &s.r.targets.get(f.peer.ID).pace})
}

// proved opens the ingest when the size became a fact.
func (s *schedule) proved(size int64) error {
	t := s.t
	if t.ingest != nil {
		return nil
	}
	if err := t.begin(s.work, size); err != nil {
		return err
	}
	for i, sp := range s.spans {
		sp.hi.Store(min(sp.hi.Load(), t.groups()))
		sp.hedge, sp.twin = i > 0, len(s.spans) > 1
	}
	return nil
}

// start asks p for groups [lo, hi).
func (s *schedule) start(p *provider, r run, now time.Time) *span {
	sp := &span{t: s.t, p: p, lo: r.lo, last: r.hi, asked: now, proof: s.t.ingest == nil}
	sp.next.Store(r.lo)
	sp.hi.Store(r.hi)
	ctx, cancel := context.WithCancelCause(s.work)
	sp.cancel = cancel
	p.inflight++
	s.spans = append(s.spans, sp)
	s.wg.Go(func() {
		defer cancel(nil)
		if err := s.r.guard(func() error { sp.fetch(ctx, s.proofs); return nil }); err != nil {
			sp.err = err
		}
		select {
		case s.ended <- sp:
		case <-s.work.Done():
		}
	})
	return sp
}
