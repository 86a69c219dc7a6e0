package audit

import (
	"sync"
	"time"

	"allium/internal/limits"
)

// quiet bounds how many refusals are recorded, by outcome: a flood of one kind
// does not hide another. There are as many entries as outcomes.
type quiet struct {
	family *limits.Family
	mu     *sync.Mutex
	of     map[string]*refusals
}

type refusals struct {
	rate  *limits.Rate
	left  uint64    // out since they were last counted
	since time.Time // the first of them
}

func newQuiet(perSecond float64, r *limits.Registry) quiet {
	return quiet{mu: &sync.Mutex{}, of: map[string]*refusals{}, family: r.NewFamily(limits.Spec{
		Name: "audit.refusals", Path: "refused requests → the audit log", Policy: "counted, not recorded",
	}, perSecond, int(perSecond))}
}

func (q quiet) get(outcome string) *refusals {
	r := q.of[outcome]
	if r == nil {
		r = &refusals{rate: q.family.Bucket()}
		q.of[outcome] = r
	}
	return r
}

// allow takes a token, or counts a record that is left out.
func (q quiet) allow(outcome string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.get(outcome)
	if r.rate.Allow() == nil {
		return true
	}
	r.add()
	return false
}

// count counts a record that is left out.
func (q quiet) count(outcome string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.get(outcome).add()
}

func (r *refusals) add() {
	if r.left == 0 {
		r.since = time.Now()
	}
	r.left++
}

// due is when the first count has to be recorded; zero when there is none.
func (q quiet) due() (at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.of {
		if r.left > 0 && (at.IsZero() || r.since.Add(reportEvery).Before(at)) {
			at = r.since.Add(reportEvery)
		}
	}
	return at
}

// take returns the counts that are due, by outcome, and begins anew.
func (q quiet) take(now time.Time) map[string]uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := map[string]uint64{}
	for outcome, r := range q.of {
		if r.left > 0 && !now.Before(r.since.Add(reportEvery)) {
			counts[outcome], r.left = r.left, 0
		}
	}
	return counts
}
