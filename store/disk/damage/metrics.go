package damage

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the metrics of d in reg. With a nil d all values are 0.
func Register(reg prometheus.Registerer, d *List) {
	c := newRecoveryCounters()
	if d != nil {
		c = d.Count
	}
	counter := func(name, help string, labels prometheus.Labels, n *atomic.Int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(n.Load()) }))
	}
	for kind, n := range c.found {
		counter("store_recovery_damage_total", "Findings of damage by recoveries and checks, by what is damaged: "+
			"log, body, file, note, index, format.", prometheus.Labels{"kind": string(kind)}, n)
	}
	counter("store_recovery_repaired_total", "Findings of damage whose objects peers have all returned.", nil,
		&c.repaired)
	counter("store_recovery_accepted_total", "Findings of damage whose loss an operator accepted.", nil, &c.accepted)
	counter("store_recovery_torn_total",
		"Incomplete last batches of a log, which a crash leaves and which are no damage.",
		nil, &c.Torn)
	counter("store_recovery_adopted_total", "Files without a record whose bytes match their name and became objects.",
		nil, &c.Adopted)
	counter("store_recovery_quarantined_total", "Files that were set aside in quarantine/.", nil, &c.quarantined)
	counter("store_recovery_corrected_total", "Damaged places that the store rewrote from other data it has.",
		nil, &c.Corrected)
	open := func(name, help string, read func(open, unknown int) int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(read(d.Open())) }))
	}
	open("store_recovery_open", "Open findings of damage. While there are any, nothing is evicted.",
		func(n, _ int) int { return n })
	open("store_recovery_unknown",
		"Open findings whose lost records cannot be named. While there are any, writes are refused.",
		func(_, n int) int { return n })
}
