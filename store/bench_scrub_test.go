package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/env"
	"allium/protocols/b3"
)

// BenchmarkReadsUnderScrub reads verified groups at random, alone and while a
// scrub reads 200 MB/s, in turns of a quarter of a second, so that what else the
// machine does weighs on both. It reports the 99th percentile of each and their
// ratio: with one reader, which leaves a core for the scrub where there are two,
// and with two.
func BenchmarkReadsUnderScrub(b *testing.B) {
	const rate, objects, size = 200_000_000, 8, 32 << 20
	cfg := DefaultConfig()
	cfg.Dir, cfg.ScrubRate, cfg.ScrubDuty = b.TempDir(), rate, 1
	s, stop := startStore(b, cfg, vfs.Default)
	defer stop()
	p := make([]byte, size)
	open := make([]*Object, objects)
	for i := range open {
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(p)
		info, err := s.PutBytes(b.Context(), p, PutOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if open[i], err = s.Open(b.Context(), info.Root); err != nil {
			b.Fatal(err)
		}
		defer open[i].Close()
		if err := s.Verify(b.Context(), info.Root); err != nil { // brings it into the page cache
			b.Fatal(err)
		}
	}
	for _, readers := range []int{1, 2} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			var idle, busy []time.Duration
			var scrubbed int64
			for b.Loop() {
				idle = readFor(b, idle, open, readers)
				c := newScrubber(s, env.Env{})
				ctx, cancel := context.WithCancel(b.Context())
				var wg sync.WaitGroup
				wg.Go(func() {
					for ctx.Err() == nil {
						if err := c.Cycle(ctx); err != nil && ctx.Err() == nil {
							b.Error(err)
							return
						}
						scrubbed += c.Stats().Bytes
					}
				})
				busy = readFor(b, busy, open, readers)
				cancel()
				wg.Wait()
			}
			p99 := func(all []time.Duration) float64 {
				slices.Sort(all)
				return float64(all[len(all)*99/100].Nanoseconds()) / 1e3
			}
			b.ReportMetric(p99(idle), "idle-p99-µs")
			b.ReportMetric(p99(busy), "scrub-p99-µs")
			b.ReportMetric(p99(busy)/p99(idle), "of-idle")
			b.ReportMetric(float64(scrubbed)/1e6/readTurn.Seconds()/float64(b.N), "scrub-MB/s")
		})
	}
}

const readTurn = 250 * time.Millisecond

// readFor reads for a turn and appends how long the reads took.
func readFor(b *testing.B, all []time.Duration, open []*Object, readers int) []time.Duration {
	var mu sync.Mutex
	var wg sync.WaitGroup
	until := time.Now().Add(readTurn)
	for i := range readers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), uint64(len(all))))
			buf := make([]byte, b3.GroupSize)
			took := make([]time.Duration, 0, 1<<14)
			for begun := time.Now(); begun.Before(until); {
				o := open[rnd.IntN(len(open))]
				if _, err := o.Reader().ReadGroup(rnd.Int64N(b3.Groups(o.Size())), buf); err != nil {
					b.Error(err)
					return
				}
				now := time.Now()
				took = append(took, now.Sub(begun))
				begun = now
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	wg.Wait()
	return all
}
