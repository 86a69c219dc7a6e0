package limits

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"allium/protocols/status"
)

// Rate is a token bucket.
type Rate struct {
	m *meter
	l *rate.Limiter

	mu sync.Mutex // of reserve
}

// NewRate returns a bucket of burst tokens refilled at perSecond. Both ≥ 1.
func (r *Registry) NewRate(s Spec, perSecond float64, burst int) *Rate {
	return &Rate{m: r.add(s, KindRate, int64(perSecond), nil), l: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// Allow takes a token, or returns status.RateLimit with the time until there
// is one.
func (r *Rate) Allow() error {
	// A reservation that is cancelled does not always give its token back when
	// others reserve meanwhile: the rate would not hold.
	if r.l.Allow() {
		return nil
	}
	wait := time.Duration((1 - r.l.Tokens()) / float64(r.l.Limit()) * float64(time.Second))
	r.m.rejected.Add(1)
	return status.BusyError(status.RateLimit, status.Limit{
		Name: r.m.spec.Name, Current: r.m.cap, Cap: r.m.cap, RetryAfter: clampWait(wait.Round(time.Millisecond)),
	})
}

// Take takes a token if there is one. Otherwise it counts no refusal: the caller
// waits for one with Wait.
func (r *Rate) Take() bool { return r.l.Allow() }

// Wait takes n tokens, at most the burst, and returns when they are there. When
// that would take longer than most it takes none and returns status.RateLimit;
// when ctx ends first they are lost.
func (r *Rate) Wait(ctx context.Context, n int, most time.Duration) error {
	wait, err := r.reserve(n, most)
	if err != nil || wait <= 0 {
		return err
	}
	return Sleep(ctx, wait)
}

// reserve takes n tokens ahead of time, or none. It looks before it takes, for
// the reason given in Allow.
func (r *Rate) reserve(n int, most time.Duration) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	wait := time.Duration((float64(n) - r.l.TokensAt(now)) / float64(r.l.Limit()) * float64(time.Second))
	if wait > most {
		r.m.rejected.Add(1)
		return 0, status.BusyError(status.RateLimit, status.Limit{
			Name: r.m.spec.Name, Current: r.m.cap, Cap: r.m.cap, RetryAfter: clampWait((wait - most).Round(time.Millisecond)),
		})
	}
	return r.l.ReserveN(now, n).DelayFrom(now), nil
}

// Family is a set of token buckets under one limit, one bucket for each peer
// or client. The caller owns the buckets and bounds their number.
type Family struct {
	m         *meter
	perSecond float64
	burst     int
}

// NewFamily describes buckets of burst tokens refilled at perSecond.
func (r *Registry) NewFamily(s Spec, perSecond float64, burst int) *Family {
	return &Family{m: r.add(s, KindRate, int64(perSecond), nil), perSecond: perSecond, burst: burst}
}

// Bucket returns a new full bucket that counts its refusals under the family.
func (f *Family) Bucket() *Rate {
	return &Rate{m: f.m, l: rate.NewLimiter(rate.Limit(f.perSecond), f.burst)}
}
