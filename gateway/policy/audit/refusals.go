package audit

import (
	"sync"
	"time"

	"allium/internal/limits"
)

// refusalLimit limits the rate of recorded refusals. Each outcome has a token bucket of
// its own, so a flood of one outcome does not hide another. It is safe for
// concurrent use. The map has at most one entry for each outcome.
type refusalLimit struct {
	family    *limits.Rate
	mu        *sync.Mutex              // lock: leaf
	byOutcome map[string]*outcomeLimit // by outcome
}

// outcomeLimit is the token bucket of one outcome, and the refusals it suppressed.
type outcomeLimit struct {
	rate       *limits.Rate
	suppressed uint64    // refusals suppressed since the last count was taken
	since      time.Time // when the first of them was suppressed
}

func newRefusalLimit(perSecond float64, r *limits.Registry) refusalLimit {
	return refusalLimit{mu: &sync.Mutex{}, byOutcome: map[string]*outcomeLimit{}, family: r.NewRate(limits.Spec{
		Name: "audit.refusals", Path: "refused requests → the audit log", Policy: "counted, not recorded",
		Each: "outcome",
	}, perSecond, int(perSecond))}
}

// get returns the entry of an outcome and creates it if needed. The caller holds q.mu.
func (q refusalLimit) get(outcome string) *outcomeLimit {
	r := q.byOutcome[outcome]
	if r == nil {
		r = &outcomeLimit{rate: q.family.Member()}
		q.byOutcome[outcome] = r
	}
	return r
}

// allow reports whether a refusal may be recorded. If not, it counts the refusal.
func (q refusalLimit) allow(outcome string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.get(outcome)
	if r.rate.Allow() == nil {
		return true
	}
	r.add()
	return false
}

// count counts a refusal that cannot be recorded.
func (q refusalLimit) count(outcome string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.get(outcome).add()
}

func (r *outcomeLimit) add() {
	if r.suppressed == 0 {
		r.since = time.Now()
	}
	r.suppressed++
}

// due returns when the first count must be recorded: reportEvery after its first
// refusal. It returns zero when there is no count.
func (q refusalLimit) due() (at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.byOutcome {
		if r.suppressed > 0 && (at.IsZero() || r.since.Add(reportEvery).Before(at)) {
			at = r.since.Add(reportEvery)
		}
	}
	return at
}

// take returns the counts that are due, by outcome, and sets them to zero.
func (q refusalLimit) take(now time.Time) map[string]uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := map[string]uint64{}
	for outcome, r := range q.byOutcome {
		if r.suppressed > 0 && !now.Before(r.since.Add(reportEvery)) {
			counts[outcome], r.suppressed = r.suppressed, 0
		}
	}
	return counts
}
