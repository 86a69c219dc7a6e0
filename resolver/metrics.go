package resolver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// metrics are the resolver's, named as in SPEC §10.
type metrics struct {
	latency       *prometheus.HistogramVec
	deadlineHits  prometheus.Counter
	hits, misses  prometheus.Counter
	breakerOpened prometheus.Counter
	retries       prometheus.Counter
	failures      *prometheus.CounterVec // outcome

	hedges  *prometheus.CounterVec // result
	sources *prometheus.CounterVec // origin

	fetchBytes, rangeBytes, treeBytes, extraBytes prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "resolver_received_bytes_total", Help: "Verified bytes received from peers, by what asked for them; extra: that were here already.",
	}, []string{"type"})
	retries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "backoff_retries_total", Help: "Times something was tried again after a pause; fetch: all providers of an object.",
	}, []string{"op"})
	m := &metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "resolve_latency_seconds", Help: "Time until the first group of an object can be read (open_local, open_peer), an object or a directory is stored (fetch, tree), a lookup ends (providers).",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"type"}),
		deadlineHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "resolve_deadline_hit_total", Help: "Provider lookups that found nobody within resolver.deadline.",
		}),
		hits:   prometheus.NewCounter(prometheus.CounterOpts{Name: "index_cache_hits_total", Help: "Provider lookups answered from the cache or joined in flight."}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{Name: "index_cache_misses_total", Help: "Provider lookups that asked the network."}),
		breakerOpened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "breaker_open_total", Help: "Times a peer's breaker opened.",
		}),
		retries: retries.WithLabelValues("fetch"),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "resolver_provider_failures_total", Help: "Requests to providers that failed, by outcome.",
		}, []string{"outcome"}),
		fetchBytes: bytes.WithLabelValues("fetch"),
		rangeBytes: bytes.WithLabelValues("range"),
		treeBytes:  bytes.WithLabelValues("tree"),
		extraBytes: bytes.WithLabelValues("extra"),
		hedges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "resolver_hedges_total", Help: "Requests that doubled a late one, by result: won (something came first from it), lost (nothing did), failed.",
		}, []string{"result"}),
	}
	m.sources = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "resolver_sources_total", Help: "Peers drawn to be asked for objects, by how they became known: named (by the caller), peer (it served the object or its directory), gossip, dht.",
	}, []string{"origin"})
	for _, o := range []Origin{OriginNamed, OriginServed, OriginGossip, OriginDHT} {
		m.sources.WithLabelValues(string(o))
	}
	for _, result := range []string{"won", "lost", "failed"} {
		m.hedges.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(m.latency, m.deadlineHits, m.hits, m.misses, m.breakerOpened, retries, m.failures, m.hedges, m.sources, bytes)
	}
	return m
}

// hedge counts a request that doubled another.
func (m *metrics) hedge(sp *span) {
	result := "failed"
	switch {
	case sp.fresh > 0:
		result = "won"
	case sp.extra > 0 || sp.gaveUp != nil:
		result = "lost"
	}
	m.hedges.WithLabelValues(result).Inc()
}

// registerTransfers adds the gauge of what is being fetched.
func (r *Resolver) registerTransfers(reg prometheus.Registerer) {
	count := func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(len(r.transfers))
	}
	for state, f := range map[string]func() float64{
		"all": count, "lingering": func() float64 { return float64(min(r.lingering.Load(), maxLingering)) },
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "resolver_transfers", Help: "Objects that are being fetched (all), and those of them that nobody waits for, open for the next range (lingering).",
			ConstLabels: prometheus.Labels{"state": state},
		}, f))
	}
}

// observe records how long something took since start.
func (m *metrics) observe(what string, start time.Time) {
	m.latency.WithLabelValues(what).Observe(time.Since(start).Seconds())
}

// breakerStates collects breaker_targets{state} when it is asked for.
type breakerStates struct {
	desc *prometheus.Desc
	t    *targets
}

func newBreakerStates(t *targets) breakerStates {
	return breakerStates{
		desc: prometheus.NewDesc("breaker_targets", "Peers with a breaker, by its state.", []string{"state"}, nil),
		t:    t,
	}
}

// Describe implements prometheus.Collector.
func (c breakerStates) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c breakerStates) Collect(ch chan<- prometheus.Metric) {
	n := c.t.states()
	for _, s := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n[s]), s.String())
	}
}
