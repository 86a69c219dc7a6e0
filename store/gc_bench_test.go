package store_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/gc"
	"allium/store/storetest"
)

// BenchmarkGC removes half of the objects of a store while 8 readers and 4
// writers run, and reports the p99 of reads before and meanwhile, and by how
// much the resident memory grew. b.N times 10,000 objects: -benchtime=100x is
// a million.
func BenchmarkGC(b *testing.B) {
	cfg := store.DefaultConfig()
	cfg.Dir = b.TempDir()
	cfg.HotBytes = 0 // every read is of the disk tier
	s, _ := storetest.Start(b, cfg, store.Deps{})
	const unit = 10_000
	n := b.N * unit
	content := func(i int) []byte { return fmt.Appendf(make([]byte, 0, 512), "%0500d", i) }
	kept := map[string]b3.Root{}
	for i := range n {
		info, err := s.PutBytes(b.Context(), content(i), store.PutOptions{Deferred: true})
		if err != nil {
			b.Fatal(err)
		}
		if i%2 == 0 {
			kept[fmt.Sprintf("%09d", i)] = info.Root
		}
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := s.Pin(b.Context(), tree(b, s, kept, nil), store.PinOptions{Recursive: true}); err != nil {
		b.Fatal(err)
	}
	clear(kept)
	load := func(until func() bool) (p99 time.Duration, reads int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var all []time.Duration
		var next atomic.Int64
		for range 8 {
			wg.Go(func() {
				var mine []time.Duration
				for i := 0; !until(); i++ {
					begun := time.Now()
					o, err := s.Open(b.Context(), b3.Sum(content(int(next.Add(7919))%(n/2)*2)))
					if err != nil {
						b.Error(err)
						return
					}
					o.Close()
					if i%8 == 0 && len(mine) < 1<<16 {
						mine = append(mine, time.Since(begun))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, mine...)
			})
		}
		for w := range 4 {
			wg.Go(func() {
				for i := 0; !until(); i++ {
					p := fmt.Appendf(nil, "%d of %d %s", i, w, b.Name())
					if _, err := s.PutBytes(b.Context(), p, store.PutOptions{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		slices.Sort(all)
		return all[len(all)*99/100], len(all)
	}
	end := time.Now().Add(5 * time.Second)
	idle, _ := load(func() bool { return time.Now().After(end) })
	before := rss(b)
	var over atomic.Bool
	var peak int64
	var wg sync.WaitGroup
	var r gc.Report
	b.ResetTimer()
	wg.Go(func() {
		defer over.Store(true)
		var err error
		r, err = s.Collector().Run(b.Context(),
			gc.Options{All: true, Progress: func(gc.Report) { peak = max(peak, rss(b)) }})
		if err != nil {
			b.Error(err)
		}
	})
	busy, _ := load(over.Load)
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(n), "objects")
	b.ReportMetric(float64(r.Classes[gc.Removed].Objects), "removed")
	b.ReportMetric(float64(idle.Microseconds()), "idle-p99-µs")
	b.ReportMetric(float64(busy.Microseconds()), "gc-p99-µs")
	b.ReportMetric(float64(peak-before)/(1<<20), "rss-growth-MB")
	b.ReportMetric(r.Took.Seconds(), "gc-s")
}

// rss is the resident memory in bytes, 0 where it cannot be told.
func rss(b *testing.B) int64 {
	p, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var total, resident int64
	if _, err := fmt.Fscan(strings.NewReader(string(p)), &total, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}
