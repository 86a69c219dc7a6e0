package trace

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/tracing"
	"allium/protocols/status"
)

// Lookup records one lookup while it runs. Its methods are safe for concurrent use. A nil
// Lookup has no ID and records nothing. After End it records nothing more.
type Lookup struct {
	id       status.LookupID
	byReader bool // a reader decides how fast it goes, so only the first bytes can be late
	mark     mark
	span     *tracing.Span // nil: the trace is not sent

	mu    sync.Mutex // lock: metadata
	draft draft      // its ring never changes
	ended bool
}

// ID returns the ID of the lookup.
func (l *Lookup) ID() status.LookupID {
	if l == nil {
		return 0
	}
	return l.id
}

// startOf returns when the lookup began.
func startOf(l *Lookup) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draft.rec.Start
}

// Context returns ctx with the span of the lookup, for requests to peers.
func (l *Lookup) Context(ctx context.Context) context.Context {
	if l == nil {
		return ctx
	}
	return tracing.With(ctx, l.span)
}

// Mark returns err with the ID of the lookup.
func (l *Lookup) Mark(err error) error { return status.WithLookup(err, l.ID()) }

// enter locks the record and returns the time since the lookup began. When the lookup has ended, or
// has no record, ok is false and nothing is locked. The caller unlocks mu.
func (l *Lookup) enter() (now time.Duration, ok bool) {
	if l == nil || l.draft.ring == nil {
		return 0, false
	}
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return 0, false
	}
	return time.Since(l.draft.rec.Start), true
}

// Step adds a step that ends now. Its At becomes the time at which it began.
func (l *Lookup) Step(s Step) {
	now, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	l.mark.step(string(s.Source), string(s.Verdict), s.Took)
	s.At, s.Note = max(0, now-s.Took), cut(s.Note, maxText)
	l.draft.rec.Steps = keep(&l.draft, l.draft.rec.Steps, s, maxSteps, stepSize, s.Note, &l.draft.rec.Omitted.Steps)
}

// Failed adds a step that ends now with an error.
func (l *Lookup) Failed(from Source, took time.Duration, err error) {
	l.Step(Step{Source: from, Verdict: Failed, Took: took, Note: textOf(err)})
}

// Call counts a call that uses the lookup.
func (l *Lookup) Call() {
	if _, ok := l.enter(); ok {
		l.draft.rec.Callers++
		l.mu.Unlock()
	}
}

// Ready says that the first verified bytes, or the first provider of a search, are there. Only the
// first call counts.
func (l *Lookup) Ready() {
	now, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	if l.draft.rec.Ready == 0 {
		l.draft.rec.Ready = max(now, 1)
	}
}

// Fault says that the lookup failed for one of its callers, while others may still use it. The first
// call decides how the lookup ended.
func (l *Lookup) Fault(err error) {
	_, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	if l.draft.rec.Outcome == status.OK {
		l.draft.rec.Outcome, l.draft.rec.Message = status.Of(err), textOf(err)
	}
}

// Peer adds a provider that is about to be asked, unless it was added.
func (l *Lookup) Peer(id peer.ID, origin Source) {
	now, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	if l.draft.peer(id) != nil {
		return
	}
	p := Peer{ID: id, Origin: origin, Found: now}
	l.draft.rec.Peers = keep(&l.draft, l.draft.rec.Peers, p, maxPeers, peerSize, "", &l.draft.rec.Omitted.Peers)
}

// Span adds a request to a provider that ends now. It sets At and Took from asked, which is when the
// request was made. err is the request's.
func (l *Lookup) Span(id peer.ID, s Span, asked time.Time, err error) {
	now, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	s.At = max(0, asked.Sub(l.draft.rec.Start))
	s.Took, s.Outcome, s.Message = max(0, now-s.At), status.Of(err), textOf(err)
	l.mark.step("request", s.Outcome.String(), s.Took)
	l.draft.rec.Bytes += s.Bytes
	if s.Bytes > 0 {
		ready := max(1, s.At+cmp.Or(s.First, s.Took))
		l.draft.rec.Ready = min(cmp.Or(l.draft.rec.Ready, ready), ready)
	}
	p := l.draft.peer(id)
	if p == nil {
		l.draft.rec.Omitted.Spans++
		return
	}
	p.add(s)
	l.draft.keepSpan(p, s)
}

// Measured sets what was measured of a provider: bytes per second and the time to the first byte. 0
// is unknown.
func (l *Lookup) Measured(id peer.ID, rate float64, rtt time.Duration) {
	_, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	if p := l.draft.peer(id); p != nil {
		p.Rate, p.RTT = rate, rtt
	}
}

// GiveUp says that a provider is not asked any more, and why.
func (l *Lookup) GiveUp(id peer.ID, err error) {
	now, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	p, text := l.draft.peer(id), textOf(err)
	if p != nil && p.GaveUp == nil && l.draft.fits(len(text)) {
		p.GaveUp = &GaveUp{At: now, Outcome: status.Of(err), Message: text}
	}
}

// Failure adds an object of a directory that could not be fetched.
func (l *Lookup) Failure(f Failure, err error) {
	_, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	f.Outcome, f.Message = status.Of(err), textOf(err)
	c := l.draft.counts()
	c.Failures = keep(&l.draft, c.Failures, f, maxFailures, failureSize, f.Message, &l.draft.rec.Omitted.Failures)
}

// Count sets the totals of a tree fetch. Failures are kept.
func (l *Lookup) Count(c Counts) {
	_, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	c.Failures = l.draft.counts().Failures
	*l.draft.counts() = c
}
