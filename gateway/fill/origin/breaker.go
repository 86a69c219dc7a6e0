package origin

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/sony/gobreaker/v2"

	"allium/protocols/status"
)

// breaker stops requests to a source that does not work. A source that cannot be reached or answers too late counts
// each time. A source that answers, and fails all the same, may fail for this path alone: then the path counts once in
// Params.BreakerWindow. So the breaker opens if many paths fail, and one bad path, however often it is asked for, shuts
// no other. Its methods are safe for concurrent use.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	window time.Duration

	mu     sync.Mutex                        // lock: leaf
	failed *simplelru.LRU[string, time.Time] // when the failure of a path was counted
}

func newBreaker(p Params) (*breaker, error) {
	failed, err := simplelru.NewLRU[string, time.Time](failedPaths, nil)
	if err != nil {
		return nil, err
	}
	b := &breaker{window: p.BreakerWindow, failed: failed}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: p.BreakerProbes, Interval: p.BreakerWindow, BucketPeriod: p.BreakerWindow / breakerBucket,
		Timeout: p.BreakerCooldown,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			calls := c.TotalSuccesses + c.TotalFailures
			return calls >= p.BreakerMinCalls && float64(c.TotalFailures) > breakerErrors*float64(calls)
		},
		IsSuccessful: func(err error) bool { return !Failing(err) },
		IsExcluded: func(err error) bool {
			return status.Of(err) == status.Canceled || err == errCounted //nolint:errorlint // the very value
		},
	})
	return b, nil
}

// errCounted tells the breaker that a failure says nothing new.
var errCounted = errors.New("the path has failed before")

// verdict returns what the breaker counts of a request for a path that ended with err. It marks a repeated failure.
func (b *breaker) verdict(path string, err error) error {
	var f *failure
	if !errors.As(err, &f) || !f.failing || !f.answered || b.first(path, time.Now()) {
		return err
	}
	f.repeated = true
	return errCounted
}

// first notes that a path failed, and reports whether that is its first failure within the window.
func (b *breaker) first(path string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.failed.Get(path); ok && now.Sub(at) < b.window {
		return false
	}
	b.failed.Add(path, now)
	return true
}
