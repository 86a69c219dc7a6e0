package limits_test

import (
	"testing"

	"allium/internal/limits"
)

// BenchmarkGates is what it costs to take a place, bytes or a token, and to give them back.
func BenchmarkGates(b *testing.B) {
	r := limits.NewRegistry(nil)
	gate := r.NewGate(spec("gate"), 4, 4)
	member := r.NewGate(family("gates"), 4, 4).Member()
	told := family("told gates")
	told.Fullest = func() int64 { return 0 }
	toldMember := r.NewGate(told, 4, 0).Member()
	budget := r.NewBudget(spec("budget"), 1<<20)
	keyed := limits.NewKeyedGate[string](r, spec("keyed"), 4)
	known := limits.NewKeyedGate[string](r, spec("known key"), 4)
	if _, err := known.Enter("key"); err != nil {
		b.Fatal(err)
	}
	fair := limits.NewFairGate[string](r, spec("fair"), 4, 1)
	bucket := r.NewRate(family("buckets"), 1e12, 1e9).Member()
	called := func(leave func(), err error) error {
		leave()
		return err
	}
	for name, once := range map[string]func() error{
		"gate":        func() error { err := gate.Enter(); gate.Leave(); return err },
		"acquire":     func() error { return called(gate.Acquire(b.Context())) },
		"member":      func() error { err := member.Enter(); member.Leave(); return err },
		"told member": func() error { err := toldMember.Enter(); toldMember.Leave(); return err },
		"budget":      func() error { err := budget.TryAcquire(100); budget.Release(100); return err },
		"new key":     func() error { return called(keyed.Enter("key")) },
		"known key":   func() error { return called(known.Enter("key")) },
		"fair":        func() error { err := fair.Enter("key"); fair.Leave("key"); return err },
		"bucket":      func() error { return bucket.Allow() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := once(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
