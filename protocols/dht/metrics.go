package dht

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/dht/messages"
	"allium/protocols/name"
	"allium/protocols/status"
)

// metrics holds the metrics of SPEC §10 and, under dht_, those of this package.
type metrics struct {
	lookupSeconds *prometheus.HistogramVec // op
	lookupHops    *prometheus.HistogramVec // op
	lookupProbes  *prometheus.HistogramVec // op
	rpcSeconds    *prometheus.HistogramVec // proto, outcome
	rejected      *prometheus.CounterVec   // reason
	served        *prometheus.CounterVec   // op, outcome
	announced     *prometheus.CounterVec   // result
	persisted     *prometheus.CounterVec   // result

	namesRejected  *prometheus.CounterVec // reason
	namesPersisted *prometheus.CounterVec // result
	namesPassedOn  *prometheus.CounterVec // result
	names          prometheus.Gauge

	hedges, hedgesCanceled prometheus.Counter
	records                prometheus.Gauge
	network                prometheus.Gauge
}

// The values of the label op of lookups.
const (
	opFind    = "find"    // providers
	opPublish = "publish" // a record
	opSweep   = "sweep"   // the republish sweep
	opRefresh = "refresh" // a refresh of the routing table

	opFindName    = "find_name"
	opPublishName = "publish_name"
)

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	rpcBuckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2, 5, 15, 60}
	m := &metrics{
		lookupSeconds: histogram("dht_lookup_seconds", "Duration of a lookup, find or publish.", rpcBuckets, "op"),
		lookupHops: histogram("dht_lookup_hops",
			"Hops to the answer that ended a lookup; the node's own table is hop 1.",
			[]float64{0, 1, 2, 3, 4, 5}, "op"),
		lookupProbes: histogram("dht_lookup_probes", "Peers asked by a lookup, hedges included.",
			[]float64{1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 128}, "op"),
		rpcSeconds: histogram("dht_rpc_seconds", "Duration of an outgoing call, dial included.",
			rpcBuckets, "proto", "outcome"),
		rejected: env.CounterVec("dht_record_rejected_total", "Provider records refused, by reason.", "reason"),
		served: env.CounterVec("dht_served_total",
			"Requests of the provider exchange answered, by outcome.", "op", "outcome"),
		announced: env.CounterVec("dht_announced_total",
			"Objects announced when they were added or pinned, by result.", "result"),
		persisted: env.CounterVec("dht_records_persisted_total",
			"Changes of provider records on disk: stored, deleted, "+
				"dropped (too many waited), failed (tried again); and records read after a start: restored, refused.",
			"result"),

		namesRejected: env.CounterVec("dht_name_rejected_total", "Name records refused, by reason.", "reason"),
		namesPersisted: env.CounterVec("dht_names_persisted_total",
			"Changes of name records on disk: stored, deleted, "+
				"dropped (too many waited), failed (tried again); and records read after a start: restored, refused.",
			"result"),
		namesPassedOn: env.CounterVec("dht_names_passed_on_total",
			"Name records of others that this node sent to the peers closest to the name, by result.", "result"),
		names: env.Gauge("dht_name_records", "Name records stored."),

		hedges:         env.Counter("hedge_spawned_total", "Probes of lookups sent because an earlier one was late."),
		hedgesCanceled: env.Counter("hedge_canceled_total", "Hedges whose answer was no longer needed."),
		records:        env.Gauge("dht_provider_records", "Provider records stored."),
		network: env.Gauge("dht_network_size",
			"Estimated number of servers of the DHT; 0 before the first lookup of this node's own key."),
	}
	for _, c := range []*prometheus.CounterVec{m.announced, m.namesPassedOn} {
		env.Values(c, "ok", "failed")
	}
	for _, c := range []*prometheus.CounterVec{m.persisted, m.namesPersisted} {
		env.Values(c, "stored", "deleted", "dropped", "failed", "restored", "refused")
	}
	for _, r := range messages.Refusals() {
		env.Values(m.rejected, r.Refusal)
	}
	for _, r := range name.Refusals() {
		env.Values(m.namesRejected, r.Refusal)
	}
	return m, env.Register(reg, m.lookupSeconds, m.lookupHops, m.lookupProbes, m.rpcSeconds, m.rejected, m.served,
		m.announced, m.persisted, m.namesRejected, m.namesPersisted, m.namesPassedOn, m.names, m.hedges,
		m.hedgesCanceled, m.records, m.network)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// rpc records the duration of an outgoing call. The outcome label is bounded by the table of SPEC §3.
func (m *metrics) rpc(proto string, start time.Time, err error) {
	m.rpcSeconds.WithLabelValues(proto, status.Of(err).String()).Observe(time.Since(start).Seconds())
}

// refused counts a refused record. It ignores other errors.
func (m *metrics) refused(err error) {
	var re *messages.RecordError
	var ne *name.RecordError
	switch {
	case errors.As(err, &re):
		m.rejected.WithLabelValues(string(re.Refusal)).Inc()
	case errors.As(err, &ne):
		m.namesRejected.WithLabelValues(string(ne.Refusal)).Inc()
	}
}

// passedOn counts a record that was passed on.
func (m *metrics) passedOn(err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.namesPassedOn.WithLabelValues(result).Inc()
}
