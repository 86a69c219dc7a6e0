package limits_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// anyPlace lets everybody wait.
func anyPlace() (leave func(), ok bool) { return func() {}, true }

// await calls Await and Leave from n goroutines of a key for so long, and counts what got in.
func await(s *limits.FairRate[int], key, n int, length time.Duration, wg *sync.WaitGroup) (in, refused *atomic.Int64) {
	in, refused = new(atomic.Int64), new(atomic.Int64)
	end := time.Now().Add(length)
	for range n {
		wg.Go(func() {
			for time.Now().Before(end) {
				share, err := s.Await(context.Background(), key, anyPlace)
				if err != nil {
					refused.Add(1)
					time.Sleep(100 * time.Millisecond)
					continue
				}
				in.Add(1)
				time.Sleep(time.Millisecond)
				share.Leave()
			}
		})
	}
	return in, refused
}

// TestFairRateAwait: clients that ask as often as they are answered wait for their turns, get equal shares whatever
// their number of connections, and none is refused.
func TestFairRateAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 1000, Each: 128, Wait: 2 * time.Second})
		var wg sync.WaitGroup
		var in, refused [5]*atomic.Int64
		for i, conns := range []int{4, 8, 16, 64, 128} {
			in[i], refused[i] = await(s, i, conns, 20*time.Second, &wg)
		}
		wg.Wait()
		all := int64(0)
		for i := range in {
			all += in[i].Load()
			if n := in[i].Load(); n < 2000 || n > 2700 || refused[i].Load() > 0 && i < 3 {
				t.Errorf("client %d got in %d times and was refused %d times", i, n, refused[i].Load())
			}
		}
		if all < 10_500 || all > 11_000+5*128 {
			t.Errorf("all together got in %d times", all)
		}
	})
}

// TestFairRateWaits: a request waits as long as it may, leaves the line when its caller goes away, and is refused at
// once if it cannot get a token in time or has no place.
func TestFairRateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, s := newFairRate(limits.FairRateConfig{PerSecond: 1, Burst: 1, Each: 8, Wait: 2 * time.Second})
		begun := time.Now()
		enter := func(ctx context.Context, want status.Outcome, after time.Duration) {
			t.Helper()
			share, err := s.Await(ctx, 1, anyPlace)
			if status.Of(err) != want || time.Since(begun) != after {
				t.Fatalf("%v after %s, want %q after %s", err, time.Since(begun), want, after)
			}
			share.Leave()
		}
		enter(t.Context(), status.OK, 0)
		enter(t.Context(), status.OK, time.Second)
		gone, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Await(gone, 1, anyPlace); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() { enter(t.Context(), status.OK, 2*time.Second) }) // not 3 s
		synctest.Wait()
		if share, err := s.Await(t.Context(), 1, anyPlace); share != nil || status.Of(err) != status.RateLimit {
			t.Errorf("the third in line, whose turn is in 3 s: %v", err)
		}
		leave()
		wg.Wait()
		noPlace := func() (leave func(), ok bool) { return nil, false }
		if _, err := s.Await(t.Context(), 1, noPlace); status.Of(err) != status.RateLimit {
			t.Errorf("without a place: %v", err)
		}
		time.Sleep(time.Minute)
		if share, err := s.Enter(1); err != nil {
			t.Error(err)
		} else {
			share.Leave()
		}
		for _, i := range reg.Snapshot() {
			if i.Name == "each" && i.Current != 0 {
				t.Errorf("%d are in flight", i.Current)
			}
		}
	})
}

// TestFairRateRefund: a key that is alone gets back what it did not cost. As soon as another comes, both have their
// shares.
func TestFairRateRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 1000, Each: 128, Wait: 2 * time.Second})
		ask := func(key int, every, length time.Duration) (in int) {
			for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(every) {
				if share, err := s.Enter(key); err == nil {
					in++
					share.Refund()
					share.Leave()
				}
			}
			return in
		}
		if in := ask(1, 100*time.Microsecond, 10*time.Second); in != 100_000 {
			t.Errorf("alone it got in %d times of 100,000", in)
		}
		var wg sync.WaitGroup
		var first, second int
		wg.Go(func() { first = ask(1, 100*time.Microsecond, 10*time.Second) })
		wg.Go(func() { second = ask(2, time.Second/240, 10*time.Second) })
		wg.Wait()
		if second < 2395 || first > 5000+1000-second+10 {
			t.Errorf("beside one that asks 2,400 times and got in %d times it got in %d times", second, first)
		}
	})
}

// TestFairRateOverload: of keys that go on asking for three times the rate, whatever they are answered, as many
// requests get in as the rate allows, fewer than one in a hundred of them waits long, and the line of the rate is full
// until a second after the last refusal. A key that asks again when it is answered is not refused beside them.
func TestFairRateOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 1000, Wait: 2 * time.Second})
		const keys = 16
		var in, late atomic.Int64
		var wg sync.WaitGroup
		begun := time.Now()
		for key := range keys {
			wg.Go(func() {
				for range 10 * 1500 / keys {
					time.Sleep(time.Second * keys / 1500)
					wg.Go(func() {
						asked := time.Now()
						share, err := s.Await(t.Context(), key, anyPlace)
						if err != nil {
							return
						}
						share.Leave()
						in.Add(1)
						if time.Since(asked) > 150*time.Millisecond {
							late.Add(1)
						}
					})
				}
			})
		}
		line := func(want, of int64) {
			t.Helper()
			for _, i := range reg.Queues() {
				if i.Name == "rate" && i.Waiting == want && i.MaxWaiting == of {
					return
				}
			}
			t.Errorf("after %s the line is not %d of %d: %+v", time.Since(begun), want, of, reg.Queues())
		}
		var honest sync.WaitGroup
		_, refused := await(s, keys, 4, 9*time.Second, &honest)
		time.Sleep(8 * time.Second)
		line(keys, keys+1)
		honest.Wait()
		wg.Wait()
		if in.Load() < 0.9*500*10 || late.Load() > in.Load()/100 || refused.Load() > 0 {
			t.Errorf("%d got in, %d of them late; of one that waits for answers %d were refused", in.Load(), late.Load(),
				refused.Load())
		}
		time.Sleep(2 * time.Second)
		line(0, 8)
	})
}

// TestFairRateOverloadBesideOthers: what a key that asks too much may let wait is of its own share, also while the
// keys that have the others get their tokens at once.
func TestFairRateOverloadBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFairRate(limits.FairRateConfig{PerSecond: 100, Burst: 10, Wait: 2 * time.Second})
		var in, late atomic.Int64
		var wg sync.WaitGroup
		begun := time.Now()
		for step := range 2000 {
			time.Sleep(5 * time.Millisecond)
			wg.Go(func() {
				asked := time.Now()
				share, err := s.Await(t.Context(), 0, anyPlace)
				if err != nil {
					return
				}
				share.Leave()
				in.Add(1)
				if asked.Sub(begun) > 5*time.Second && time.Since(asked) > 150*time.Millisecond {
					late.Add(1)
				}
			})
			if step%20 != 0 {
				continue
			}
			for other := 1; other < 10; other++ { // each asks for what its share allows
				if share, err := s.Await(t.Context(), other, anyPlace); err != nil {
					t.Errorf("client %d: %v", other, err)
				} else {
					share.Leave()
				}
			}
		}
		wg.Wait()
		if in.Load() < 100 || late.Load() > 0 {
			t.Errorf("%d got in, %d of them late", in.Load(), late.Load())
		}
	})
}
