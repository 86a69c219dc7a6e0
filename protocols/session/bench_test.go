package session_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/streamtest"
)

// BenchmarkCall is a small request and its answer over one session in memory;
// parallel callers share it.
func BenchmarkCall(b *testing.B) {
	net := streamtest.NewNetwork(streamtest.Options{})
	defer net.Close()
	cfg := session.DefaultConfig()
	cfg.ControlRate = 1 << 20
	cfg.MaxInflight = 256
	client, server := start(b, net.Host("a"), cfg, nil), start(b, net.Host("b"), cfg, echo)
	defer client.stop()
	defer server.stop()
	payload := []byte(`{"op":"resolve","key":"b3:0000000000000000000000000000000000000000000000000000000000000000","max_stale_ms":0}`)
	call := func(b testing.TB) {
		if _, err := client.Call(b.Context(), "b", oap.ProtoIndex, payload); err != nil {
			b.Error(err)
		}
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call(b)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call(b)
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	})
}

// BenchmarkOpenSessions is what an idle session costs the side that accepted
// it: memory and goroutines, the streams themselves not counted.
func BenchmarkOpenSessions(b *testing.B) {
	net := streamtest.NewNetwork(streamtest.Options{})
	defer net.Close()
	server := start(b, net.Host("server"), session.DefaultConfig(), echo)
	defer server.stop()
	memory := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	before, goroutines := memory(), runtime.NumGoroutine()
	n := 0
	for b.Loop() {
		dial(b, net.Host(peer.ID(fmt.Sprint("peer ", n))), "server").hello()
		n++
	}
	b.StopTimer()
	b.ReportMetric((memory()-before)/float64(n), "B/session")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(n), "goroutines/session")
}
