package resolver

import (
	"time"

	"allium/internal/limits"
)

// Params are the constants of the resolver that an operator has no reason to choose. Tests set them
// through [Config].
type Params struct {
	// StallTimeout is the longest time in which a provider may send no verified byte, dialing included, before
	// another provider is asked.
	StallTimeout time.Duration `fixed:"stall_timeout"`

	// Tries is the number of requests in a row that deliver nothing after which a provider of an object is lost.
	// The sources of a batch of small objects are tried as often.
	Tries int `fixed:"tries"`

	// FetchesWaiting bounds the fetches that wait for one of Fetches places. More are refused with
	// busy.
	FetchesWaiting int64 `fixed:"fetches_waiting"`

	// PeerRequests bounds the requests in flight to one peer; further ones wait. Each request is one
	// stream of the object protocol.
	PeerRequests int64 `fixed:"peer_requests"`

	// Trees bounds the directories fetched at once. As many again may wait; more are refused with busy.
	Trees int64 `fixed:"trees"`

	// TreeRequests bounds the requests in flight for one directory.
	TreeRequests int `fixed:"tree_requests"`

	// TreeLarge bounds the large files in flight for one directory, on top of TreeRequests.
	TreeLarge int `fixed:"tree_large"`

	// CacheEntries bounds the objects whose providers are cached. The least recently used is evicted.
	CacheEntries int `fixed:"cache_entries"`

	// CacheBytes bounds the memory of the cached providers, estimated. The least recently used is
	// evicted.
	CacheBytes limits.Bytes `fixed:"cache_bytes"`

	// PositiveTTL is the time for which found providers stay in the cache, ± 10 %, but not after the end of one
	// of their records.
	PositiveTTL time.Duration `fixed:"positive_ttl"`

	// NegativeTTL is the time for which "no provider" stays in the cache, ± 10 %. It is short, because the
	// object may be about to be added.
	NegativeTTL time.Duration `fixed:"negative_ttl"`

	// Lookups bounds the provider lookups that run at once. 512 may wait; more are refused with busy.
	Lookups int64 `fixed:"lookups"`

	// BreakerPeers bounds the peers that have a circuit breaker. The least recently used one is
	// dropped.
	BreakerPeers int `fixed:"breaker_peers"`

	// BreakerWindow is the sliding window over which a peer's failures are counted.
	BreakerWindow time.Duration `fixed:"breaker_window"`

	// BreakerMinCalls is the number of requests that BreakerWindow must hold before a breaker may open.
	BreakerMinCalls int `fixed:"breaker_min_calls"`

	// BreakerErrors is the share of failed requests above which a peer's breaker opens.
	BreakerErrors float64 `fixed:"breaker_errors"`

	// BreakerCooldown is the time that an open breaker refuses requests before it lets BreakerProbes through.
	BreakerCooldown time.Duration `fixed:"breaker_cooldown"`

	// BreakerProbes is the number of probes that must succeed to close a breaker again.
	BreakerProbes int `fixed:"breaker_probes"`
}

// defaultParams returns the values that a node runs with.
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
		CacheBytes:      48 << 20,
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
