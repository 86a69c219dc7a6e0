package limits

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"allium/protocols/status"
)

// Rate is a token bucket, or a family of them of one size.
type Rate struct {
	m *meter
	l *rate.Limiter

	of   *Rate                      // whose size it has: that of its family, or its own
	size atomic.Pointer[bucketSize] // set by Set
	has  atomic.Pointer[bucketSize] // the size that l has

	mu sync.Mutex // held by reserve, between its look at the tokens and taking them; lock: leaf
}

// bucketSize is the size of a token bucket.
type bucketSize struct {
	perSecond float64
	burst     int
}

// NewRate returns a full bucket of burst tokens (≥ 1) that gets perSecond tokens
// (≥ 1) every second, or a family of such buckets.
func (r *Registry) NewRate(s Spec, perSecond float64, burst int) *Rate {
	return newBucket(r.add(s, KindRate, int64(perSecond), nil), nil, &bucketSize{perSecond, burst})
}

// Member returns a new full bucket of the family. The caller owns it.
func (r *Rate) Member() *Rate { return newBucket(r.m, r, r.size.Load()) }

func newBucket(m *meter, of *Rate, size *bucketSize) *Rate {
	r := &Rate{m: m, l: rate.NewLimiter(rate.Limit(size.perSecond), size.burst)}
	r.of = cmp.Or(of, r)
	r.size.Store(size)
	r.has.Store(size)
	return r
}

// Set changes the bucket, and each member of the family: from now on it gets perSecond tokens (≥ 1) every second and
// holds at most burst (≥ 1). Waits for tokens that were reserved before do not change.
func (r *Rate) Set(perSecond float64, burst int) {
	r.m.size.Store(int64(perSecond))
	r.size.Store(&bucketSize{perSecond, burst})
	r.limiter()
}

// limiter returns the bucket, which it gives the size that was set last.
func (r *Rate) limiter() *rate.Limiter {
	size := r.of.size.Load()
	if had := r.has.Load(); had != size && r.has.CompareAndSwap(had, size) {
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

// KeyedRate is a family of buckets, one for each key, such as a peer. It remembers the keys that were
// used last, so that a key which comes back soon gets no new burst.
type KeyedRate[K comparable] struct {
	family  *Rate
	buckets *lru.Cache[K, *Rate]
}

// NewKeyedRate returns a KeyedRate with the buckets of NewRate, that remembers so many keys (≥ 1).
func NewKeyedRate[K comparable](r *Registry, s Spec, perSecond float64, burst, keys int) *KeyedRate[K] {
	buckets, err := lru.New[K, *Rate](keys)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &KeyedRate[K]{family: r.NewRate(s, perSecond, burst), buckets: buckets}
}

// Set sets the size of every bucket, as Rate.Set does.
func (k *KeyedRate[K]) Set(perSecond float64, burst int) { k.family.Set(perSecond, burst) }

// Of returns the bucket of a key.
func (k *KeyedRate[K]) Of(key K) *Rate {
	b, ok := k.buckets.Get(key)
	if ok {
		return b
	}
	b = k.family.Member()
	if other, ok, _ := k.buckets.PeekOrAdd(key, b); ok {
		return other
	}
	return b
}
