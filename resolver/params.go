package resolver

import (
	"time"
)

// Params are the numbers of the resolver that nobody tunes. Tests set them through [Config].
type Params struct {
	// StallTimeout is the time without a verified byte, dialing included, after which another provider
	// is asked.
	StallTimeout time.Duration `fixed:"stall_timeout"`

	// Tries is how often the providers of an object are gone through before it fails.
	Tries int `fixed:"tries"`

	// FetchesWaiting bounds the fetches that wait for one of Fetches places. More are refused with
	// busy.
	FetchesWaiting int64 `fixed:"fetches_waiting"`

	// PeerRequests bounds the requests in flight to one peer; further ones wait. The object protocol
	// opens as many streams to it.
	PeerRequests int64 `fixed:"peer_requests"`

	// Trees bounds the directories fetched at once. As many again wait; more are refused with busy.
	Trees int64 `fixed:"trees"`

	// TreeRequests bounds the requests in flight for one directory.
	TreeRequests int `fixed:"tree_requests"`

	// TreeLarge bounds the large files in flight for one directory, on top of TreeRequests.
	TreeLarge int `fixed:"tree_large"`

	// CacheEntries bounds the lookups of providers that are remembered. The oldest is evicted.
	CacheEntries int `fixed:"cache_entries"`

	// PositiveTTL is how long found providers are remembered.
	PositiveTTL time.Duration `fixed:"positive_ttl"`

	// NegativeTTL is how long it is remembered that an object has no provider. It is short, as
	// somebody may be adding the object.
	NegativeTTL time.Duration `fixed:"negative_ttl"`

	// Lookups bounds the lookups of providers running at once. 512 wait, more are refused with busy.
	Lookups int64 `fixed:"lookups"`

	// BreakerPeers bounds the peers whose failures are remembered. The one unused longest is
	// forgotten.
	BreakerPeers int `fixed:"breaker_peers"`

	// BreakerWindow is the sliding window over which a peer's failures are counted.
	BreakerWindow time.Duration `fixed:"breaker_window"`

	// BreakerMinCalls is the requests within BreakerWindow below which a breaker never opens.
	BreakerMinCalls int `fixed:"breaker_min_calls"`

	// BreakerErrors is the share of failed requests above which a peer's breaker opens.
	BreakerErrors float64 `fixed:"breaker_errors"`

	// BreakerCooldown is how long an open breaker refuses before it lets BreakerProbes through.
	BreakerCooldown time.Duration `fixed:"breaker_cooldown"`

	// BreakerProbes is how many probes must succeed to close a breaker again.
	BreakerProbes int `fixed:"breaker_probes"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		StallTimeout:    5 * time.Second,
		Tries:           3,
		FetchesWaiting:  512,
		PeerRequests:    8,
		Trees:           4,
		TreeRequests:    8,
		TreeLarge:       3,
		CacheEntries:    100_000,
		PositiveTTL:     10 * time.Second,
		NegativeTTL:     2 * time.Second,
		Lookups:         64,
		BreakerPeers:    4096,
		BreakerWindow:   10 * time.Second,
		BreakerMinCalls: 5,
		BreakerErrors:   0.5,
		BreakerCooldown: 5 * time.Second,
		BreakerProbes:   2,
	}
}
