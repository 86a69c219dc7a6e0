package capability

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Bounds of the buckets of rates; a bucket has about 300 bytes. Whoever has a
// capability makes new caveats, and so new buckets, as fast as it asks: maxEach
// keeps it, with all that is made of the same capability, from having them all.
const (
	maxBuckets = 8 << 10
	maxEach    = maxBuckets / 32
)

// bucketIdle is after how long a bucket that nobody took from is full, and so
// as good as a new one: a bucket holds what comes in one second.
const bucketIdle = time.Second

// bucketKey names the bucket of one caveat on the rate: by the capability and
// all caveats up to this one, so that what is made of a token by attenuation
// takes from the bucket of its origin, too, and cannot make a second one.
type bucketKey struct {
	id   nonce
	path uint64
	rate int64
}

type bucket struct {
	l    *rate.Limiter
	used time.Time
}

// rates enforces the caveats on the rate.
type rates struct {
	seed  maphash.Seed
	usage *limits.Usage
	each  *limits.Usage

	mu      sync.Mutex
	buckets *simplelru.LRU[bucketKey, *bucket]
	of      map[nonce]int64 // how many each capability has
}

func newRates(registry *limits.Registry) *rates {
	r := &rates{seed: maphash.MakeSeed(), of: map[nonce]int64{}}
	lru, err := simplelru.NewLRU(maxBuckets+1, r.forget) // never full: bucket refuses first
	if err != nil {
		panic(err) // the size is positive
	}
	r.buckets = lru
	r.usage = registry.NewUsage(limits.Spec{
		Name: "capability.rates", Path: "requests with a capability → its rate",
		Policy: "rate_limit; a bucket of a capability that was not used for a second makes room",
	}, maxBuckets, r.len)
	r.each = registry.NewUsage(limits.Spec{
		Name: "capability.rates_each", Path: "requests with one capability, or what is made of it → its rates",
		Policy: "rate_limit; a bucket that was not used for a second makes room",
	}, maxEach, r.most)
	return r
}

func (r *rates) len() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.buckets.Len())
}

// most is how many buckets the capability has that has most.
func (r *rates) most() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, has := range r.of {
		n = max(n, has)
	}
	return n
}

// take takes a request from the bucket, or refuses with rate_limit.
func (r *rates) take(now time.Time, key bucketKey) error {
	b, full := r.bucket(now, key)
	if full != nil {
		l := full.Refuse()
		l.RetryAfter = bucketIdle
		return tooOften(l)
	}
	if b.AllowN(now, 1) {
		return nil
	}
	wait := time.Duration((1 - b.TokensAt(now)) / float64(key.rate) * float64(time.Second))
	return tooOften(status.Limit{Name: "capability.rate", Current: key.rate, Cap: key.rate, RetryAfter: max(wait.Round(time.Millisecond), 100*time.Millisecond)})
}

func tooOften(l status.Limit) error {
	err := status.BusyError(status.RateLimit, l)
	err.Detail = string(TooOften)
	return err
}

// bucket finds or makes a bucket, or says which bound leaves no room for one.
func (r *rates) bucket(now time.Time, key bucketKey) (l *rate.Limiter, full *limits.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.buckets.Get(key)
	if !ok {
		r.sweep(now)
		switch {
		case r.of[key.id] >= maxEach:
			return nil, r.each
		case r.buckets.Len() >= maxBuckets:
			return nil, r.usage
		}
		b = &bucket{l: rate.NewLimiter(rate.Limit(key.rate), int(key.rate))}
		r.buckets.Add(key, b)
		r.of[key.id]++
	}
	b.used = now
	return b.l, nil
}

// sweep forgets the buckets that are as good as new ones.
func (r *rates) sweep(now time.Time) {
	for {
		if _, oldest, ok := r.buckets.GetOldest(); !ok || now.Sub(oldest.used) < bucketIdle {
			return
		}
		r.buckets.RemoveOldest()
	}
}

// forget counts a bucket that was removed.
func (r *rates) forget(key bucketKey, _ *bucket) {
	if r.of[key.id]--; r.of[key.id] <= 0 {
		delete(r.of, key.id)
	}
}
