package session_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/oap"
	"allium/protocols/session"
)

// smallRequest is a request of the size that discovery asks with.
var smallRequest = []byte(`{"op":"resolve","max_stale_ms":0,` +
	`"key":"b3:0000000000000000000000000000000000000000000000000000000000000000"}`)

// BenchmarkLoopback compares a small request over a session with an echo of as
// many bytes over a raw stream between the same two hosts. The two take turns,
// so that whatever else the machine does slows both.
func BenchmarkLoopback(b *testing.B) {
	for _, transport := range []struct{ name, addr string }{
		{"tcp", "/ip4/127.0.0.1/tcp/0"}, {"quic", "/ip4/127.0.0.1/udp/0/quic-v1"},
	} {
		b.Run(transport.name, func(b *testing.B) {
			from, to := realHost(b, transport.addr), realHost(b, transport.addr)
			from.Peerstore().AddAddrs(to.ID(), to.Addrs(), peerstore.PermanentAddrTTL)
			cfg := session.DefaultConfig()
			cfg.ControlRate, cfg.MaxInflight = 1<<20, 256
			client, stopClient := runOn(b, from, cfg, nil)
			defer stopClient()
			_, stopServer := runOn(b, to, cfg, echo)
			defer stopServer()
			call := func(b testing.TB) {
				if _, err := client.Call(b.Context(), to.ID(), oap.ProtoIndex, smallRequest); err != nil {
					b.Error(err)
				}
			}
			call(b)
			b.Run("p50", func(b *testing.B) {
				raw := rawEcho(b, from, to)
				var calls, echoes []time.Duration
				for b.Loop() {
					begun := time.Now()
					raw()
					echoed := time.Now()
					call(b)
					echoes, calls = append(echoes, echoed.Sub(begun)), append(calls, time.Since(echoed))
				}
				slices.Sort(calls)
				slices.Sort(echoes)
				half := len(calls) / 2
				b.ReportMetric(float64(calls[half].Nanoseconds())/1e3, "call-µs")
				b.ReportMetric(float64(echoes[half].Nanoseconds())/1e3, "echo-µs")
				b.ReportMetric(float64(calls[half])/float64(echoes[half]), "call/echo")
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
		})
	}
}

// rawEcho returns an echo of smallRequest in a frame over a stream of its own:
// one goroutine at each end, no deadlines.
func rawEcho(b testing.TB, from, to host.Host) func() {
	const id = protocol.ID("/raw/echo")
	size := len(smallRequest) + oap.HeaderSize
	to.SetStreamHandler(id, func(s network.Stream) {
		buf := make([]byte, size)
		for {
			if _, err := io.ReadFull(s, buf); err != nil {
				break
			}
			if _, err := s.Write(buf); err != nil {
				break
			}
		}
		_ = s.Close()
	})
	s, err := from.NewStream(b.Context(), to.ID(), id)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Reset() })
	buf := make([]byte, size)
	return func() {
		if _, err := s.Write(buf); err != nil {
			b.Error(err)
		}
		if _, err := io.ReadFull(s, buf); err != nil {
			b.Error(err)
		}
	}
}
