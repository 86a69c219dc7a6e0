package resumable

import "github.com/prometheus/client_golang/prometheus"

// register registers the metrics of uploads. A nil reg is ignored.
func (t *Table) register(reg prometheus.Registerer) {
	if reg == nil {
		return
	}
	for end, n := range t.outcomes {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "store_uploads_total",
			Help: "Uploads in pieces that ended, by how: whole, expired, removed, " +
				"bad_digest, denied, lost (the disk lost their bytes), evicted (without a byte, for another one).",
			ConstLabels: prometheus.Labels{"end": string(end)},
		}, func() float64 { return float64(n.Load()) }))
	}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "store_uploads_open", Help: "Uploads in pieces that are not complete.",
		}, func() float64 { return float64(t.Stats().Open) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "store_upload_bytes", Help: "Bytes stored of uploads that are not complete.",
		}, func() float64 { return float64(t.Stats().Bytes) }),
	)
}
