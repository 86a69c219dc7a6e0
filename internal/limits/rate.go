package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"allium/protocols/status"
)

// Rate is a token bucket.
type Rate struct {
	m *meter
	l *rate.Limiter

	family *RateFamily // nil: it is in none
	of     atomic.Pointer[bucketSize]

	mu sync.Mutex // held by reserve, between its look at the tokens and taking them; lock: leaf
}

// NewRate returns a full bucket of burst tokens (≥ 1) that gets perSecond tokens
// (≥ 1) every second.
func (r *Registry) NewRate(s Spec, perSecond float64, burst int) *Rate {
	return &Rate{m: r.add(s, KindRate, int64(perSecond), nil), l: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// Set gives the bucket perSecond tokens (≥ 1) every second from now on, of which it holds burst
// (≥ 1). Those that were reserved before are waited for as before.
func (r *Rate) Set(perSecond float64, burst int) {
	r.m.size.Store(int64(perSecond))
	r.l.SetLimit(rate.Limit(perSecond))
	r.l.SetBurst(burst)
}

// limiter returns the bucket, with the present rate of its family.
func (r *Rate) limiter() *rate.Limiter {
	if r.family == nil {
		return r.l
	}
	size := r.family.size.Load()
	if was := r.of.Load(); was != size && r.of.CompareAndSwap(was, size) {
		r.l.SetLimit(rate.Limit(size.perSecond))
		r.l.SetBurst(size.burst)
	}
	return r.l
}

// Allow takes a token, or returns status.RateLimit with the time until the bucket
// has one.
func (r *Rate) Allow() error {
	// Allow does not reserve a token and cancel: the limiter does not always give
	// the token back if another reservation was made meanwhile.
	l := r.limiter()
	if l.Allow() {
		return nil
	}
	wait := time.Duration((1 - l.Tokens()) / float64(l.Limit()) * float64(time.Second))
	return r.m.reject(status.RateLimit, r.m.cap(), wait.Round(time.Millisecond))
}

// Take takes a token if the bucket has one, and reports whether it did. It counts
// no refusal, because the caller may wait with Wait instead.
func (r *Rate) Take() bool { return r.limiter().Allow() }

// Wait waits until the bucket has n tokens and takes them; n is at most the burst.
// If that would last longer than most, Wait takes none and returns
// status.RateLimit at once. If ctx ends first, the tokens are lost, and Wait
// returns ctx's error.
func (r *Rate) Wait(ctx context.Context, n int, most time.Duration) error {
	wait, err := r.reserve(n, most)
	if err != nil || wait <= 0 {
		return err
	}
	return Sleep(ctx, wait)
}

// reserve takes n tokens in advance and returns how long to wait for them, or takes
// none and returns an error. It computes the wait before it takes the tokens, for
// the reason given in Allow.
func (r *Rate) reserve(n int, most time.Duration) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, l := time.Now(), r.limiter()
	wait := time.Duration((float64(n) - l.TokensAt(now)) / float64(l.Limit()) * float64(time.Second))
	if wait > most {
		return 0, r.m.reject(status.RateLimit, r.m.cap(), (wait - most).Round(time.Millisecond))
	}
	return l.ReserveN(now, n).DelayFrom(now), nil
}

// RateFamily is a set of token buckets under one limit, one bucket for each peer
// or client. The caller owns the buckets and bounds their number.
type RateFamily struct {
	m    *meter
	size atomic.Pointer[bucketSize]
}

// bucketSize is the size of the buckets of a family.
type bucketSize struct {
	perSecond float64
	burst     int
}

// NewRateFamily lists a limit for buckets of burst tokens (≥ 1) each, which get
// perSecond tokens (≥ 1) every second.
func (r *Registry) NewRateFamily(s Spec, perSecond float64, burst int) *RateFamily {
	f := &RateFamily{m: r.add(s, KindRate, int64(perSecond), nil)}
	f.size.Store(&bucketSize{perSecond, burst})
	return f
}

// Set does what Rate.Set does, to every bucket of the family.
func (f *RateFamily) Set(perSecond float64, burst int) {
	f.m.size.Store(int64(perSecond))
	f.size.Store(&bucketSize{perSecond, burst})
}

// Bucket returns a new full bucket of the family.
func (f *RateFamily) Bucket() *Rate {
	size := f.size.Load()
	r := &Rate{m: f.m, family: f, l: rate.NewLimiter(rate.Limit(size.perSecond), size.burst)}
	r.of.Store(size)
	return r
}
