package resolver

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/sony/gobreaker/v2"

	"allium/protocols/status"
)

// breakers keeps one circuit breaker per peer in a bounded table (SPEC §2):
// a peer that failed more than half of at least five requests within ten
// seconds is left alone for five seconds, then has to answer two probes.
type breakers struct {
	settings gobreaker.Settings
	cooldown time.Duration

	mu    sync.Mutex // guards table; never held while a request runs
	table *simplelru.LRU[peer.ID, *breaker]
}

type breaker = gobreaker.TwoStepCircuitBreaker[struct{}]

// breakerBuckets divides the window: failures leave it in steps of a tenth.
const breakerBuckets = 10

func newBreakers(cfg Config, opened func()) *breakers {
	table, err := simplelru.NewLRU[peer.ID, *breaker](cfg.BreakerPeers, nil)
	if err != nil {
		panic(err) // only for a size below one, which Validate refuses
	}
	return &breakers{
		cooldown: cfg.BreakerCooldown,
		table:    table,
		settings: gobreaker.Settings{
			MaxRequests:  uint32(cfg.BreakerProbes),
			Interval:     cfg.BreakerWindow,
			BucketPeriod: cfg.BreakerWindow / breakerBuckets,
			Timeout:      cfg.BreakerCooldown,
			ReadyToTrip: func(c gobreaker.Counts) bool {
				calls := c.TotalSuccesses + c.TotalFailures
				return calls >= uint32(cfg.BreakerMinCalls) && float64(c.TotalFailures) > cfg.BreakerErrors*float64(calls)
			},
			OnStateChange: func(_ string, _, to gobreaker.State) {
				if to == gobreaker.StateOpen {
					opened()
				}
			},
			IsSuccessful: func(err error) bool { return blame(err) == blameless },
			IsExcluded:   func(err error) bool { return blame(err) == irrelevant },
		},
	}
}

// allow returns the function that reports how the request went, or
// status.BreakerOpen when p is to be left alone.
func (b *breakers) allow(p peer.ID) (done func(error), err error) {
	b.mu.Lock()
	br, ok := b.table.Get(p)
	if !ok {
		br = gobreaker.NewTwoStepCircuitBreaker[struct{}](b.settings)
		b.table.Add(p, br)
	}
	b.mu.Unlock()
	done, err = br.Allow()
	if err != nil {
		return nil, &status.Error{
			Outcome: status.BreakerOpen,
			Message: "the peer failed too often; it is asked again after a pause",
			Limit:   &status.Limit{Name: "resolver.breaker", RetryAfter: b.cooldown},
			Err:     err,
		}
	}
	return done, nil
}

// states counts the breakers by state.
func (b *breakers) states() map[gobreaker.State]int {
	b.mu.Lock()
	all := b.table.Values()
	b.mu.Unlock()
	n := map[gobreaker.State]int{}
	for _, br := range all {
		n[br.State()]++
	}
	return n
}

// What an outcome says about the peer that gave it.
type verdict uint8

const (
	blameless  verdict = iota // it answered as it should, if only with "not found"
	guilty                    // it failed, stalled or lied
	irrelevant                // we stopped, it was no fault of the peer, or the peer was merely busy
)

// blame judges a peer by the error of a request to it.
func blame(err error) verdict {
	if isFinal(err) {
		return irrelevant
	}
	switch o := status.Of(err); o {
	case status.OK, status.NotFound, status.Gone, status.Denied, status.Forbidden, status.NotAllowed, status.Unauthenticated:
		return blameless
	case status.Canceled, status.Draining, status.NotReady, status.BreakerOpen,
		status.Busy, status.RateLimit, status.Quota:
		return irrelevant
	default:
		return guilty
	}
}
