package resolver

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/resolver/names/lookup"
	"allium/resolver/providers"
	"allium/resolver/schedule"
	"allium/resolver/transfer"
	"allium/resolver/tree"
)

// Config bounds the resolver. node/config/keys.txt describes each key.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Deadline           time.Duration `koanf:"deadline" hot:"true"`
	HedgeAfter         time.Duration `koanf:"hedge_after" hot:"true"`
	Fetches            int64         `koanf:"fetches" hot:"true"`
	ProvidersPerObject int           `koanf:"providers_per_object" hot:"true"`
	Warmup             []string      `koanf:"warmup"`
	Ask                []string      `koanf:"ask"`
	AskConnected       bool          `koanf:"ask_connected"`
	Recurse            bool          `koanf:"recurse"`
}

// DefaultConfig returns the defaults of SPEC §2.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		Deadline:           1200 * time.Millisecond,
		HedgeAfter:         schedule.DefaultHedgeAfter,
		Fetches:            32,
		ProvidersPerObject: 4,
		AskConnected:       true,
	}
}

// The bounds of Config.HedgeAfter. Less than 10 ms hedges nearly every request.
const (
	minHedgeAfter = 10 * time.Millisecond
	maxHedgeAfter = 5 * time.Second
)

// Validate returns an error that names the first key outside its bounds.
func (c Config) Validate() error {
	for _, check := range []struct {
		ok        bool
		key, want string
	}{
		{c.Deadline > 0, "deadline", "more than 0"},
		{c.HedgeAfter >= minHedgeAfter && c.HedgeAfter <= maxHedgeAfter, "hedge_after", "10ms to 5s"},
		{c.Fetches >= 1, "fetches", "at least 1"},
		{c.ProvidersPerObject >= 1 && c.ProvidersPerObject <= 16, "providers_per_object", "1 to 16"},
	} {
		if !check.ok {
			return fmt.Errorf("resolver.%s must be %s", check.key, check.want)
		}
	}
	if _, err := c.warmup(); err != nil {
		return err
	}
	_, err := c.ask()
	return err
}

// maxAsk bounds Config.Ask.
const maxAsk = 8

// ask returns the peers of Config.Ask.
func (c Config) ask() ([]peer.AddrInfo, error) {
	if n := len(c.Ask); n > maxAsk {
		return nil, fmt.Errorf("resolver.ask has %d peers, must be at most %d", n, maxAsk)
	}
	peers := make([]peer.AddrInfo, len(c.Ask))
	for i, text := range c.Ask {
		if id, err := peer.Decode(text); err == nil {
			peers[i] = peer.AddrInfo{ID: id}
			continue
		}
		info, err := peer.AddrInfoFromString(text)
		if err != nil {
			return nil, fmt.Errorf("resolver.ask has %q, must be peer IDs or multiaddrs that end with /p2p/ID: %w",
				text, err)
		}
		peers[i] = *info
	}
	return peers, nil
}

// maxWarmup bounds Config.Warmup.
const maxWarmup = 1000

// warmup returns the objects of Config.Warmup.
func (c Config) warmup() ([]b3.Root, error) {
	if n := len(c.Warmup); n > maxWarmup {
		return nil, fmt.Errorf("resolver.warmup has %d keys, must be at most %d", n, maxWarmup)
	}
	roots := make([]b3.Root, len(c.Warmup))
	for i, key := range c.Warmup {
		root, err := address.Root(key)
		if err != nil {
			return nil, fmt.Errorf("resolver.warmup must be addresses: %w", err)
		}
		roots[i] = root
	}
	return roots, nil
}

// providers returns the bounds of package providers.
func (c Config) providers() providers.Config {
	return providers.Config{
		Deadline: c.Deadline, HedgeAfter: c.HedgeAfter, StallTimeout: c.StallTimeout,
		PeerRequests: c.PeerRequests, PeerRequestsWaiting: c.FetchesWaiting, Lookups: c.Lookups,
		CacheEntries: c.CacheEntries, CacheBytes: int64(c.CacheBytes), PositiveTTL: c.PositiveTTL,
		NegativeTTL:  c.NegativeTTL,
		BreakerPeers: c.BreakerPeers, BreakerWindow: c.BreakerWindow, BreakerMinCalls: c.BreakerMinCalls,
		BreakerErrors: c.BreakerErrors, BreakerCooldown: c.BreakerCooldown, BreakerProbes: c.BreakerProbes,
	}
}

// transfers returns the bounds of package transfer.
func (c Config) transfers() transfer.Config {
	return transfer.Config{
		Tries: c.Tries, ProvidersPerObject: c.ProvidersPerObject,
		Fetches: c.Fetches, FetchesWaiting: c.FetchesWaiting, HedgeAfter: c.HedgeAfter,
	}
}

// trees returns the bounds of package tree.
func (c Config) trees() tree.Config {
	return tree.Config{
		Trees: c.Trees, Requests: c.TreeRequests, Large: c.TreeLarge, Tries: c.Tries, HedgeAfter: c.HedgeAfter,
	}
}

// names returns the bounds of package names.
func (c Config) names() lookup.Config {
	return lookup.Config{
		Deadline: c.Deadline, NegativeTTL: c.NegativeTTL, Lookups: c.Lookups,
	}
}
