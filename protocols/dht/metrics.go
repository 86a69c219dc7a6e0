package dht

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// metrics of SPEC §10, and this package's own under dht_.
type metrics struct {
	lookupSeconds *prometheus.HistogramVec // op
	lookupHops    *prometheus.HistogramVec // op
	lookupProbes  *prometheus.HistogramVec // op
	rpcSeconds    *prometheus.HistogramVec // proto, outcome
	rejected      *prometheus.CounterVec   // reason
	served        *prometheus.CounterVec   // op, outcome
	announced     *prometheus.CounterVec   // result
	dialbacks     *prometheus.CounterVec   // result

	hedges, hedgesCanceled prometheus.Counter
	records                prometheus.Gauge
	network                prometheus.Gauge
}

// The ops of lookups: the label of their metrics.
const (
	opFind    = "find"    // providers
	opPublish = "publish" // a record
	opSweep   = "sweep"   // the republish sweep
	opRefresh = "refresh" // the routing table
)

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	rpcBuckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2, 5, 15, 60}
	m := &metrics{
		lookupSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dht_lookup_seconds", Help: "Time of a lookup, find or publish.", Buckets: rpcBuckets}, []string{"op"}),
		lookupHops:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dht_lookup_hops", Help: "Hops to the answer that ended a lookup; the own table is hop 1.", Buckets: []float64{0, 1, 2, 3, 4, 5}}, []string{"op"}),
		lookupProbes:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dht_lookup_probes", Help: "Peers asked by a lookup, hedges included.", Buckets: []float64{1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 128}}, []string{"op"}),
		rpcSeconds:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dht_rpc_seconds", Help: "Time of an outgoing call, dial included.", Buckets: rpcBuckets}, []string{"proto", "outcome"}),
		rejected:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_record_rejected_total", Help: "Provider records refused, by reason."}, []string{"reason"}),
		served:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_served_total", Help: "Requests of the provider exchange answered, by outcome."}, []string{"op", "outcome"}),
		announced:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_announced_total", Help: "Objects announced when they were added, pinned or asked for, by result."}, []string{"result"}),
		dialbacks:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_dialback_total", Help: "Providers dialled back to see whether they can be reached, by result: reached, unreached, dropped (too many waited)."}, []string{"result"}),

		hedges:         prometheus.NewCounter(prometheus.CounterOpts{Name: "hedge_spawned_total", Help: "Probes of lookups sent in place of a late one."}),
		hedgesCanceled: prometheus.NewCounter(prometheus.CounterOpts{Name: "hedge_canceled_total", Help: "Hedges whose answer was not needed any more."}),
		records:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "dht_provider_records", Help: "Provider records held."}),
		network:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "dht_network_size", Help: "Estimated number of servers of the DHT; 0 before the first lookup of this node's own neighbourhood."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lookupSeconds, m.lookupHops, m.lookupProbes, m.rpcSeconds, m.rejected, m.served, m.announced, m.dialbacks, m.hedges, m.hedgesCanceled, m.records, m.network} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// rpc counts a call made. The outcome label is bounded by the table of SPEC §3.
func (m *metrics) rpc(proto string, start time.Time, err error) {
	m.rpcSeconds.WithLabelValues(proto, status.Of(err).String()).Observe(time.Since(start).Seconds())
}

// refused counts a record that was refused; other errors are not its business.
func (m *metrics) refused(err error) {
	var re *RecordError
	if errors.As(err, &re) {
		m.rejected.WithLabelValues(string(re.Refusal)).Inc()
	}
}
