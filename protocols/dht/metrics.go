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
	rpcSeconds    *prometheus.HistogramVec // proto, outcome
	rejected      *prometheus.CounterVec   // reason
	served        *prometheus.CounterVec   // op, outcome
	republish     *prometheus.CounterVec   // result
	bootstrap     *prometheus.CounterVec   // result
	records       prometheus.Gauge
	tablePeers    prometheus.Gauge
	seeds         prometheus.Gauge
	lag           prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	rpcBuckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2, 5, 15, 60}
	m := &metrics{
		lookupSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dht_lookup_seconds", Help: "Time of a lookup, find or publish.", Buckets: rpcBuckets}, []string{"op"}),
		lookupHops:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dht_lookup_hops", Help: "Hops to the answer that ended a lookup; the own table is hop 1.", Buckets: []float64{0, 1, 2, 3, 4, 5}}, []string{"op"}),
		rpcSeconds:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dht_rpc_seconds", Help: "Time of an outgoing call, dial included.", Buckets: rpcBuckets}, []string{"proto", "outcome"}),
		rejected:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_record_rejected_total", Help: "Provider records refused, by reason."}, []string{"reason"}),
		served:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_served_total", Help: "Requests of the provider exchange answered, by outcome."}, []string{"op", "outcome"}),
		republish:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "provider_republish_total", Help: "Provider records published, by result."}, []string{"result"}),
		bootstrap:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_bootstrap_dials_total", Help: "Dials of seeds, by result."}, []string{"result"}),
		records:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "dht_provider_records", Help: "Provider records held."}),
		tablePeers:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "dht_table_peers", Help: "Peers in the routing table."}),
		seeds:         prometheus.NewGauge(prometheus.GaugeOpts{Name: "dht_seeds_connected", Help: "Seeds connected."}),
		lag:           prometheus.NewGauge(prometheus.GaugeOpts{Name: "provide_lag_seconds", Help: "How late the record being published is; 0 when none is due."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lookupSeconds, m.lookupHops, m.rpcSeconds, m.rejected, m.served, m.republish, m.bootstrap, m.records, m.tablePeers, m.seeds, m.lag} {
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
