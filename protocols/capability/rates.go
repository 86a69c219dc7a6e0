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

// The bounds of the rate buckets; a bucket has about 300 bytes. A bearer can add
// rate caveats, and so make buckets, with every request. maxEach keeps one
// capability, with everything attenuated from it, from using all buckets.
const (
	maxBuckets = 8 << 10
	maxEach    = maxBuckets / 32
)

// bucketIdle is the time after which an unused bucket is full again and may be
// removed. A bucket holds the requests of one second.
const bucketIdle = time.Second

// bucketKey identifies the bucket of one rate caveat. path is a hash of the caveats
// up to that one. So a token attenuated from another one also takes from the other
// token's bucket, and cannot get a second bucket for the same caveat.
type bucketKey struct {
	id   nonce
	path uint64
	rate int64 // requests a second
}

type bucket struct {
	l    *rate.Limiter
	used time.Time
}

// rates enforces the rate caveats. It is safe for concurrent use.
type rates struct {
	seed  maphash.Seed
	usage *limits.Usage
	each  *limits.Usage

	mu      sync.Mutex // lock: leaf
	buckets *simplelru.LRU[bucketKey, *bucket]
	of      map[nonce]int64 // number of buckets of each capability
}

func newRates(registry *limits.Registry) *rates {
	r := &rates{seed: maphash.MakeSeed(), of: map[nonce]int64{}}
	lru, err := simplelru.NewLRU(maxBuckets+1, r.removed) // never full: bucket keeps it below
	if err != nil {
		panic(err) // the size is positive
	}
	r.buckets = lru
	r.usage = registry.NewUsage(limits.Spec{
		Name: "capability.rates", Path: "requests with a capability → its rate",
		Policy: "rate_limit, after buckets that were unused for a second are removed",
	}, maxBuckets, r.len)
	r.each = registry.NewUsage(limits.Spec{
		Name: "capability.rates_each", Path: "requests with one capability, or what is made of it → its rates",
		Policy: "rate_limit, after buckets that were unused for a second are removed",
	}, maxEach, r.most)
	return r
}

func (r *rates) len() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.buckets.Len())
}

// most returns the largest number of buckets of one capability.
func (r *rates) most() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, has := range r.of {
		n = max(n, has)
	}
	return n
}

// take takes one request from the bucket. The error is rate_limit if the bucket is
// empty or cannot be made.
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
	return tooOften(status.Limit{
		Name: "capability.rate", Current: key.rate, Cap: key.rate,
		RetryAfter: max(wait.Round(time.Millisecond), 100*time.Millisecond),
	})
}

func tooOften(l status.Limit) error {
	err := status.BusyError(status.RateLimit, l)
	err.Detail = string(TooOften)
	return err
}

// bucket returns the bucket of key and makes it if needed. If a bound is reached, it
// returns that bound as full.
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

// sweep removes the buckets that were unused for bucketIdle.
func (r *rates) sweep(now time.Time) {
	for {
		if _, oldest, ok := r.buckets.GetOldest(); !ok || now.Sub(oldest.used) < bucketIdle {
			return
		}
		r.buckets.RemoveOldest()
	}
}

// removed updates the counts after a bucket was removed.
func (r *rates) removed(key bucketKey, _ *bucket) {
	if r.of[key.id]--; r.of[key.id] <= 0 {
		delete(r.of, key.id)
	}
}
