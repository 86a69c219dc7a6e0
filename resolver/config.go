package resolver

import (
	"fmt"
	"time"

	"allium/resolver/providers"
	"allium/resolver/transfer"
	"allium/resolver/tree"
)

// Config bounds the resolver. The defaults are SPEC §2's.
type Config struct {
	Deadline     time.Duration `koanf:"deadline" doc:"Time to find providers of an object before giving up, > 0."`
	StallTimeout time.Duration `koanf:"stall_timeout" doc:"Time without a verified byte, dialing included, after which another provider is asked, > 0."`
	Tries        int           `koanf:"tries" doc:"How often the providers of an object are gone through before it fails, 1 to 10."`

	Fetches        int64 `koanf:"fetches" doc:"Objects fetched at the same time, at least 1."`
	FetchesWaiting int64 `koanf:"fetches_waiting" doc:"Fetches that wait for a place; more are refused with busy, at least 0."`
	PeerRequests   int64 `koanf:"peer_requests" doc:"Requests in flight to one peer, at least 1, no more than object.streams_per_peer; further ones wait."`

	ProvidersPerObject int `koanf:"providers_per_object" doc:"Providers that one object is fetched from at the same time, 1 to 16; a second one is asked when 2 MiB are left, or when the first is late."`

	Trees        int64 `koanf:"trees" doc:"Directories fetched at the same time, at least 1; as many again wait, more are refused with busy."`
	TreeRequests int   `koanf:"tree_requests" doc:"Requests in flight for one directory, 1 to 64."`
	TreeLarge    int   `koanf:"tree_large" doc:"Large files in flight for one directory, on top of tree_requests, 1 to 16."`

	CacheEntries int           `koanf:"cache_entries" doc:"Provider lookups remembered, at least 1; the oldest is evicted."`
	PositiveTTL  time.Duration `koanf:"positive_ttl" doc:"How long found providers are remembered, > 0."`
	NegativeTTL  time.Duration `koanf:"negative_ttl" doc:"How long it is remembered that an object has no provider, > 0."`
	Lookups      int64         `koanf:"lookups" doc:"Provider lookups running at the same time, at least 1; 512 wait, more are refused with busy."`

	BreakerPeers    int           `koanf:"breaker_peers" doc:"Peers whose failures are remembered, at least 1; the one unused longest is forgotten."`
	BreakerWindow   time.Duration `koanf:"breaker_window" doc:"Sliding window over which a peer's failures are counted, at least 1 s."`
	BreakerMinCalls int           `koanf:"breaker_min_calls" doc:"Requests within the window below which a breaker never opens, at least 1."`
	BreakerErrors   float64       `koanf:"breaker_errors" doc:"Share of failed requests above which a peer's breaker opens, 0 to 1."`
	BreakerCooldown time.Duration `koanf:"breaker_cooldown" doc:"How long an open breaker refuses before it lets probes through, > 0."`
	BreakerProbes   int           `koanf:"breaker_probes" doc:"Probes that must succeed to close a breaker again, at least 1."`
}

// DefaultConfig returns the defaults of SPEC §2.
func DefaultConfig() Config {
	return Config{
		Deadline:     1200 * time.Millisecond,
		StallTimeout: 5 * time.Second,
		Tries:        3,

		Fetches:        32,
		FetchesWaiting: 512,
		PeerRequests:   8,

		ProvidersPerObject: 4,

		Trees:        4,
		TreeRequests: 8,
		TreeLarge:    3,

		CacheEntries: 100_000,
		PositiveTTL:  10 * time.Second,
		NegativeTTL:  2 * time.Second,
		Lookups:      64,

		BreakerPeers:    4096,
		BreakerWindow:   10 * time.Second,
		BreakerMinCalls: 5,
		BreakerErrors:   0.5,
		BreakerCooldown: 5 * time.Second,
		BreakerProbes:   2,
	}
}

// Validate says which key is out of its bounds.
func (c Config) Validate() error {
	for _, check := range []struct {
		ok        bool
		key, want string
	}{
		{c.Deadline > 0, "deadline", "more than 0"},
		{c.StallTimeout > 0, "stall_timeout", "more than 0"},
		{c.Tries >= 1 && c.Tries <= 10, "tries", "1 to 10"},
		{c.Fetches >= 1, "fetches", "at least 1"},
		{c.FetchesWaiting >= 0, "fetches_waiting", "at least 0"},
		{c.PeerRequests >= 1, "peer_requests", "at least 1"},
		{c.ProvidersPerObject >= 1 && c.ProvidersPerObject <= 16, "providers_per_object", "1 to 16"},
		{c.Trees >= 1, "trees", "at least 1"},
		{c.TreeRequests >= 1 && c.TreeRequests <= 64, "tree_requests", "1 to 64"},
		{c.TreeLarge >= 1 && c.TreeLarge <= 16, "tree_large", "1 to 16"},
		{c.CacheEntries >= 1, "cache_entries", "at least 1"},
		{c.PositiveTTL > 0, "positive_ttl", "more than 0"},
		{c.NegativeTTL > 0, "negative_ttl", "more than 0"},
		{c.Lookups >= 1, "lookups", "at least 1"},
		{c.BreakerPeers >= 1, "breaker_peers", "at least 1"},
		{c.BreakerWindow >= time.Second, "breaker_window", "at least 1s"},
		{c.BreakerMinCalls >= 1, "breaker_min_calls", "at least 1"},
		{c.BreakerErrors >= 0 && c.BreakerErrors < 1, "breaker_errors", "0 to 1"},
		{c.BreakerCooldown > 0, "breaker_cooldown", "more than 0"},
		{c.BreakerProbes >= 1, "breaker_probes", "at least 1"},
	} {
		if !check.ok {
			return fmt.Errorf("resolver.%s must be %s", check.key, check.want)
		}
	}
	return nil
}

// providers is what bounds the finding and asking of peers.
func (c Config) providers() providers.Config {
	return providers.Config{
		Deadline: c.Deadline, StallTimeout: c.StallTimeout,
		PeerRequests: c.PeerRequests, PeerRequestsWaiting: c.FetchesWaiting,
		CacheEntries: c.CacheEntries, PositiveTTL: c.PositiveTTL, NegativeTTL: c.NegativeTTL, Lookups: c.Lookups,
		BreakerPeers: c.BreakerPeers, BreakerWindow: c.BreakerWindow, BreakerMinCalls: c.BreakerMinCalls,
		BreakerErrors: c.BreakerErrors, BreakerCooldown: c.BreakerCooldown, BreakerProbes: c.BreakerProbes,
	}
}

// transfers is what bounds the fetching of objects.
func (c Config) transfers() transfer.Config {
	return transfer.Config{
		Tries: c.Tries, ProvidersPerObject: c.ProvidersPerObject, Fetches: c.Fetches, FetchesWaiting: c.FetchesWaiting,
	}
}

// trees is what bounds the fetching of directories.
func (c Config) trees() tree.Config {
	return tree.Config{Trees: c.Trees, Requests: c.TreeRequests, Large: c.TreeLarge, Tries: c.Tries}
}
