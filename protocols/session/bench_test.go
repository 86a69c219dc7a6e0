package session_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
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

// BenchmarkOpenSessions is what ten thousand idle sessions cost the side that
// accepted them, each: memory and goroutines, the streams themselves and what
// the dialling side holds not counted.
func BenchmarkOpenSessions(b *testing.B) {
	const sessions = 10_000
	for b.Loop() {
		openSessions(b, sessions)
	}
}

func openSessions(b *testing.B, sessions int) {
	net := streamtest.NewNetwork(streamtest.Options{})
	defer net.Close()
	cfg := session.DefaultConfig()
	cfg.IdleTimeout = time.Hour
	server := start(b, net.Host("server"), cfg, echo)
	defer server.stop()
	wires := make([]*wire, sessions)
	held := net.Host("held") // takes streams and does nothing with them
	held.SetStreamHandler(session.ProtocolID, func(s network.Stream) { _, _ = s.Read(make([]byte, 1)) })
	open := func(to peer.ID, hello bool) (bytes, goroutines float64) {
		before, n := memory(), runtime.NumGoroutine()
		for i := range wires {
			wires[i] = dial(b, net.Host(peer.ID(fmt.Sprint(to, i))), to)
			if hello {
				wires[i].hello()
				wires[i].ask(1, `{"op":"x"}`)
				wires[i].wantAnswer(1, 200, `{"op":"x"}`)
			}
		}
		return (memory() - before) / float64(sessions), float64(runtime.NumGoroutine()-n) / float64(sessions)
	}
	bare, one := open("held", false)
	all, two := open("server", true)
	b.ReportMetric(all-bare, "B/session")
	b.ReportMetric(two-one+1, "goroutines/session")
	runtime.KeepAlive(wires)
}

// memory is what the heap and the stacks of goroutines take after a collection.
func memory() float64 {
	runtime.GC()
	runtime.GC() // what pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
