package pack

import "github.com/prometheus/client_golang/prometheus"

// The results of a request for a tile.
const (
	tileSent     = "sent"
	tileMissing  = "missing"
	tileFresh    = "not_modified"
	tileRefused  = "refused" // the request is wrong
	tileFailed   = "failed"
	mountMounted = "mounted"
	mountFailed  = "failed"
)

type metrics struct {
	tiles   *prometheus.CounterVec
	results map[string]prometheus.Counter // of tiles, by result; read-only
	mounts  *prometheus.CounterVec
}

// newMetrics registers the metrics of a set of packs. reg may be nil. count returns how many packs are served,
// and how many should be.
func newMetrics(reg prometheus.Registerer, count func() (served, all int)) metrics {
	m := metrics{
		results: map[string]prometheus.Counter{},
		tiles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pack_tiles_total",
			Help: "Requests for tiles of packs, by result: sent, missing, not_modified, refused or failed.",
		}, []string{"result"}),
		mounts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pack_mount_total",
			Help: "Packs that were verified, also again after a change, by result: mounted or failed.",
		}, []string{"result"}),
	}
	for _, result := range []string{tileSent, tileMissing, tileFresh, tileRefused, tileFailed} {
		m.results[result] = m.tiles.WithLabelValues(result)
	}
	for _, result := range []string{mountMounted, mountFailed} {
		m.mounts.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(m.tiles, m.mounts, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "packs_served", Help: "Packs of map tiles that are served.",
		}, func() float64 {
			served, _ := count()
			return float64(served)
		}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "packs_not_served", Help: "Packs of map tiles that are not served: they are bad, or nobody has them.",
		}, func() float64 {
			served, all := count()
			return float64(all - served)
		}))
	}
	return m
}
