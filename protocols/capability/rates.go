package capability

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"allium/protocols/admission"
	"allium/protocols/status"
)

// maxBuckets bounds the buckets of rates; a bucket has about 200 bytes.
const maxBuckets = 8 << 10

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
	usage *admission.Usage

	mu      sync.Mutex
	buckets *simplelru.LRU[bucketKey, *bucket]
}

func newRates(limits *admission.Registry) *rates {
	lru, err := simplelru.NewLRU[bucketKey, *bucket](maxBuckets+1, nil) // never full: take makes room
	if err != nil {
		panic(err) // the size is positive
	}
	r := &rates{seed: maphash.MakeSeed(), buckets: lru}
	r.usage = limits.NewUsage(admission.Spec{
		Name: "capability.rates", Path: "requests with a capability → its rate",
		Policy: "rate_limit; a bucket of a capability that was not used for a second makes room",
	}, maxBuckets, r.len)
	return r
}

func (r *rates) len() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.buckets.Len())
}

// take takes a request from the bucket, or refuses with rate_limit.
func (r *rates) take(now time.Time, key bucketKey) error {
	b := r.bucket(now, key)
	if b == nil {
		l := r.usage.Refuse()
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

// bucket finds or makes a bucket; nil where there is no room for one.
func (r *rates) bucket(now time.Time, key bucketKey) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.buckets.Get(key)
	if !ok {
		if r.buckets.Len() >= maxBuckets {
			if _, oldest, _ := r.buckets.GetOldest(); now.Sub(oldest.used) < bucketIdle {
				return nil
			}
			r.buckets.RemoveOldest()
		}
		b = &bucket{l: rate.NewLimiter(rate.Limit(key.rate), int(key.rate))}
		r.buckets.Add(key, b)
	}
	b.used = now
	return b.l
}
