package limits_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/limits"
)

// awaited counts the requests of one client.
type awaited struct {
	in, late, refused atomic.Int64 // late: got in after more than 150 ms
}

// ask makes n requests of a key, one each interval, whatever they are answered.
func (a *awaited) ask(s *limits.FairRate[int], key, n int, every time.Duration, wg *sync.WaitGroup) {
	wg.Go(func() {
		for range n {
			wg.Go(func() {
				asked := time.Now()
				share, err := s.Await(context.Background(), key, anyPlace)
				if err != nil {
					a.refused.Add(1)
					return
				}
				a.in.Add(1)
				if time.Since(asked) > 150*time.Millisecond {
					a.late.Add(1)
				}
				share.Leave()
			})
			time.Sleep(every)
		}
	})
}

// TestFairRateClosedLoop: clients that ask some time after they are answered are not refused, however many connections
// they have, also when all begin at once.
func TestFairRateClosedLoop(t *testing.T) {
	for _, think := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			_, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 1000, Each: 128, Wait: 2 * time.Second})
			var wg sync.WaitGroup
			for key, conns := range []int{4, 6, 8, 16, 32, 64} {
				for conn := range conns {
					wg.Go(func() {
						for end := time.Now().Add(time.Minute); time.Now().Before(end); {
							share, err := s.Await(t.Context(), key, anyPlace)
							if err != nil {
								t.Errorf("connection %d of %d: %v", conn, conns, err)
								return
							}
							time.Sleep(time.Millisecond)
							share.Leave()
							time.Sleep(think)
						}
					})
				}
			}
			wg.Wait()
		})
	}
}

// TestFairRateBursts: a client that asks often at once, and less than its share on the whole, is not refused beside
// others that use up the rate.
func TestFairRateBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 10, Wait: 2 * time.Second})
		var wg sync.WaitGroup
		for key := range 4 {
			await(s, key, 8, 20*time.Second, &wg)
		}
		var bursts awaited
		for range 10 {
			bursts.ask(s, 4, 100, 0, &wg)
			time.Sleep(2 * time.Second)
		}
		wg.Wait()
		if bursts.refused.Load() > 0 || bursts.in.Load() != 1000 || bursts.late.Load() == 0 {
			t.Errorf("%d of 1000 got in, %d late", bursts.in.Load(), bursts.late.Load())
		}
	})
}

// TestFairRateGreedy: a client that asks ten times the rate soon has a short line, also if it has as many requests in
// flight as it may. Others that ask for their share, or again when they are answered, are not refused beside it.
func TestFairRateGreedy(t *testing.T) {
	for _, each := range []int64{0, 128} {
		synctest.Test(t, func(t *testing.T) {
			_, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 100, Each: each, Wait: 2 * time.Second})
			var wg sync.WaitGroup
			var greedy, honest awaited
			greedy.ask(s, 0, 50_000, 200*time.Microsecond, &wg)
			honest.ask(s, 1, 1500, 10*time.Second/1500, &wg)
			_, refused := await(s, 2, 16, 10*time.Second, &wg)
			wg.Wait()
			if honest.refused.Load() > 0 || honest.late.Load() > 0 || refused.Load() > 0 {
				t.Errorf("of an honest client %d were refused and %d late, of one that waits %d were refused",
					honest.refused.Load(), honest.late.Load(), refused.Load())
			}
			if in := greedy.in.Load(); in < 1500 || greedy.late.Load() > in/100 {
				t.Errorf("of the greedy one %d got in, %d late", in, greedy.late.Load())
			}
		})
	}
}

// TestFairRateShortens: the first refusal of a line that goes on growing tells the registry, and refuses those that
// have waited longest. A second after the last refusal a burst of the same client waits again.
func TestFairRateShortens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, s := newFairRate(limits.FairRateConfig{PerSecond: 100, Burst: 1, Wait: 2 * time.Second})
		var wg sync.WaitGroup
		var grows, burst awaited
		begun := time.Now()
		grows.ask(s, 0, 100, 3*time.Millisecond, &wg)
		<-reg.Filled()
		if after := time.Since(begun); after < 200*time.Millisecond || after > 250*time.Millisecond {
			t.Errorf("it is noticed after %s", after)
		}
		synctest.Wait()
		// Of about 67, 20 got in and 10 wait; these get in too.
		if n := grows.refused.Load(); n < 30 || n > 50 {
			t.Errorf("%d are refused at once", n)
		}
		wg.Wait()
		if in := grows.in.Load(); in < 29 || in > 45 || grows.late.Load() > 10 {
			t.Errorf("%d got in, %d late", in, grows.late.Load())
		}
		time.Sleep(1100 * time.Millisecond)
		burst.ask(s, 0, 64, 0, &wg)
		wg.Wait()
		if burst.refused.Load() > 0 {
			t.Errorf("%d of a burst are refused later", burst.refused.Load())
		}
	})
}
