package allowance

import (
	"io"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/limits"
	"allium/protocols/status"
)

// endless is a stream of one message, again and again.
type endless struct {
	fixedStream
	msg []byte
}

func (s *endless) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		s.in = s.msg
	}
	return s.fixedStream.Read(p)
}

// BenchmarkMessage is a FIND_NODE of 40 bytes and its answer: what the guard
// adds to a handler that reads as kad-dht does. "bare" is that handler alone.
func BenchmarkMessage(b *testing.B) {
	msg := frame(make([]byte, 40))
	answer := make([]byte, 1024)
	exchange := func(b *testing.B, s network.Stream) {
		b.ReportAllocs()
		var one [1]byte
		body := make([]byte, 40)
		for b.Loop() {
			if _, err := io.ReadFull(s, one[:]); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(s, body); err != nil {
				b.Fatal(err)
			}
			if _, err := s.Write(answer); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("bare", func(b *testing.B) { exchange(b, &endless{fixedStream{piece: 1 << 20}, msg}) })
	b.Run("guarded", func(b *testing.B) {
		g := newTested(b, nil)
		g.accounts.rate = g.limits.NewRate(limits.Spec{Name: "bench.peer_rate"}, 1e12, 1e9)
		g.rate = limits.NewFairRate[string](
			g.limits,
			limits.Spec{Name: "bench.rate"},
			limits.Spec{},
			limits.FairRateConfig{PerSecond: 1e12, Burst: 1e9},
		)
		s := newStream(&endless{fixedStream{piece: 1 << 20}, msg}, g.Guard, maxMessage)
		s.ctx = b.Context()
		defer s.releaseAll()
		exchange(b, s)
	})
}

// BenchmarkRefuse is what a request costs that its peer's rate refuses.
func BenchmarkRefuse(b *testing.B) {
	g := newTested(b, func(c *Config) { c.PeerRate = 1 })
	b.ReportAllocs()
	for b.Loop() {
		if release, err := g.Admit(b.Context(), "loud", "", 40); err == nil {
			release()
		} else if status.Of(err) != status.RateLimit {
			b.Fatal(err)
		}
	}
}
