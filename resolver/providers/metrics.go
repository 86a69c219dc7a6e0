package providers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"allium/internal/env"
	"allium/protocols/record"
)

// metrics are named as in SPEC §10.
type metrics struct {
	latency       prometheus.ObserverVec // nil: not recorded
	deadlineHits  prometheus.Counter
	breakerOpened prometheus.Counter
	failures      *prometheus.CounterVec // outcome
	sources       *prometheus.CounterVec // origin

	hits, joined, misses    prometheus.Counter
	retries, resolveRetries prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, latency prometheus.ObserverVec) *metrics {
	retries := env.Retries(reg)
	m := &metrics{
		latency: latency,
		deadlineHits: env.Counter("resolve_deadline_hit_total",
			"Provider lookups that found nobody within resolver.deadline."),
		hits: env.Counter("index_cache_hits_total",
			"Searches for providers that were answered from the cache."),
		joined: env.Counter("index_cache_joined_total",
			"Searches for providers that joined a lookup in flight."),
		misses:         env.Counter("index_cache_misses_total", "Lookups of providers that asked the network."),
		breakerOpened:  env.Counter("breaker_open_total", "Times a peer's breaker opened."),
		retries:        retries.WithLabelValues(env.RetryFetch),
		resolveRetries: retries.WithLabelValues(env.RetryResolve),
		failures: env.CounterVec("resolver_provider_failures_total",
			"Requests to providers that failed, by outcome.", "outcome"),
		sources: env.CounterVec("resolver_sources_total",
			"Peers chosen to be asked for objects, by how they became known: named (by the caller), peer (it "+
				"served the object or its directory), gossip, connected, dht.", "origin"),
	}
	env.Values(m.sources, record.OriginNamed, record.OriginServed, record.OriginGossip, record.OriginConnected,
		record.OriginDHT)
	env.MustRegister(reg, m.deadlineHits, m.hits, m.joined, m.misses, m.breakerOpened, m.failures, m.sources)
	return m
}

// lookedUp records the time since start for a lookup.
func (m *metrics) lookedUp(start time.Time) {
	if m.latency != nil {
		m.latency.With(prometheus.Labels{"type": "providers"}).Observe(time.Since(start).Seconds())
	}
}

// breakerStates collects breaker_targets{state} on each scrape.
type breakerStates struct {
	desc  *prometheus.Desc
	peers *peers
}

func newBreakerStates(p *peers) breakerStates {
	return breakerStates{
		desc:  prometheus.NewDesc("breaker_targets", "Peers with a breaker, by its state.", []string{"state"}, nil),
		peers: p,
	}
}

// Describe implements [prometheus.Collector].
func (c breakerStates) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements [prometheus.Collector].
func (c breakerStates) Collect(ch chan<- prometheus.Metric) {
	n := c.peers.states()
	for _, s := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n[s]), s.String())
	}
}

// cacheSize collects the size of the cache on each scrape.
type cacheSize struct {
	entries, bytes *prometheus.Desc
	cache          *cache
}

func newCacheSize(c *cache) cacheSize {
	return cacheSize{
		entries: prometheus.NewDesc("index_cache_entries", "Objects whose providers are remembered.", nil, nil),
		bytes:   prometheus.NewDesc("index_cache_bytes", "Memory of the remembered providers, estimated.", nil, nil),
		cache:   c,
	}
}

// Describe implements [prometheus.Collector].
func (c cacheSize) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.entries
	ch <- c.bytes
}

// Collect implements [prometheus.Collector].
func (c cacheSize) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(c.entries, prometheus.GaugeValue, float64(c.cache.len()))
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(c.cache.bytes.Load()))
}
