package session_test

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// BenchmarkCall is a small request and its answer over one session in memory;
// parallel callers share it.
func BenchmarkCall(b *testing.B) {
	net := testkit.NewNetwork(testkit.Options{})
	defer net.Close()
	cfg := session.DefaultConfig()
	cfg.ControlRate = 1 << 20
	cfg.MaxInflight = 256
	client, server := start(b, net.Host("a"), cfg, nil), start(b, net.Host("b"), cfg, echo)
	defer client.stop()
	defer server.stop()
	payload := []byte(`{"op":"resolve","max_stale_ms":0,` +
		`"key":"b3:0000000000000000000000000000000000000000000000000000000000000000"}`)
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

// BenchmarkOpenSessions is what ten thousand sessions cost the side that
// accepted them, each: memory and goroutines, the streams themselves and what
// the dialling side holds not counted; and what comes of requests on each, as
// fast as they go, for a while (ALLIUM_TRAFFIC=10m): how many are refused, and
// what the second half of them leaves behind.
func BenchmarkOpenSessions(b *testing.B) {
	const sessions = 10_000
	for b.Loop() {
		openSessions(b, sessions)
	}
}

func openSessions(b *testing.B, sessions int) {
	net := testkit.NewNetwork(testkit.Options{})
	defer net.Close()
	cfg := session.DefaultConfig()
	cfg.IdleTimeout = time.Hour
	server := start(b, net.Host("server"), cfg, echo)
	defer server.stop()
	held := net.Host("held") // takes streams and does nothing with them
	held.SetStreamHandler(session.ProtocolID, func(s network.Stream) { _, _ = s.Read(make([]byte, 1)) })
	open := func(to peer.ID, hello bool) (wires []*wire, bytes, goroutines float64) {
		before, n := memory(), runtime.NumGoroutine()
		for i := range sessions {
			w := dial(b, net.Host(peer.ID(fmt.Sprint(to, i))), to)
			wires = append(wires, w)
			if hello {
				w.hello()
				w.ask(1, `{"op":"x"}`)
				w.wantAnswer(1, 200, `{"op":"x"}`)
			}
		}
		return wires, (memory() - before) / float64(sessions), float64(runtime.NumGoroutine()-n) / float64(sessions)
	}
	idle, bare, one := open("held", false)
	wires, all, two := open("server", true)
	begun := time.Now()
	asked, refused := askFor(wires, traffic(b)/2)
	before := memory()
	more, bad := askFor(wires, traffic(b)/2)
	asked, refused = asked+more, refused+bad
	b.ReportMetric(float64(asked)/time.Since(begun).Seconds(), "requests/s")
	b.ReportMetric(100*float64(refused)/float64(asked), "%refused")
	b.ReportMetric((memory()-before)/float64(sessions), "B-grown/session")
	b.ReportMetric(all-bare, "B/session")
	b.ReportMetric(two-one+1, "goroutines/session")
	runtime.KeepAlive(idle)
}

// traffic is how long the sessions are asked.
func traffic(b *testing.B) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("ALLIUM_TRAFFIC"), "500ms"))
	if err != nil {
		b.Fatal("ALLIUM_TRAFFIC: ", err)
	}
	return d
}

// askFor asks on one session after the other, on 64 at a time, for d at least,
// and returns how many requests there were and how many of them were not
// answered with 200.
func askFor(wires []*wire, d time.Duration) (asked, refused int64) {
	const atOnce = 64
	var (
		running  sync.WaitGroup
		all, bad atomic.Int64
		begun    = time.Now()
	)
	for i := range atOnce {
		running.Go(func() {
			for corr := uint64(2); time.Since(begun) < d; corr++ {
				for j := i; j < len(wires); j += atOnce {
					w := wires[j]
					w.ask(corr, `{"op":"x"}`)
					if f := w.recv(); f.Code != 200 || f.CorrID != corr {
						bad.Add(1)
					}
					all.Add(1)
				}
			}
		})
	}
	running.Wait()
	return all.Load(), bad.Load()
}

// memory is what the heap and the stacks of goroutines take after a collection.
func memory() float64 {
	runtime.GC()
	runtime.GC() // what pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
