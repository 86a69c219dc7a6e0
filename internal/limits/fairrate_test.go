package limits_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/status"
)

func newFairRate(c limits.FairRateConfig) (*limits.Registry, *limits.FairRate[int]) {
	r := limits.NewRegistry(nil)
	return r, limits.NewFairRate[int](r, spec("rate"), spec("each"), c)
}

// ask asks every interval for so long and returns how often it was let in.
func ask(t *testing.T, s *limits.FairRate[int], key int, every, length time.Duration) (in int) {
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(every) {
		share, err := s.Enter(key)
		if err == nil {
			in++
			share.Leave()
		} else {
			wantLimit(t, err, status.RateLimit, "rate")
		}
	}
	return in
}

// TestFairRateAlone: who asks alone may use the whole rate, and no more.
func TestFairRateAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 1000})
		burst := ask(t, s, 1, time.Microsecond, 2*time.Millisecond)
		if burst < 850 || burst > 1001 {
			t.Errorf("%d at once", burst)
		}
		if in := ask(t, s, 1, 100*time.Microsecond, 10*time.Second); in < 4990 || in > 5010 {
			t.Errorf("%d in ten seconds", in)
		}
	})
}

// TestFairRateAreFair: who asks ten times its rate, or ten times all of it, costs
// 31 others at theirs next to nothing; what they leave it may have.
func TestFairRateAreFair(t *testing.T) {
	const honest, length = 31, 20 * time.Second
	for name, c := range map[string]struct {
		honest, flood time.Duration // between requests
		least         int           // of the flood
	}{
		"ten times its rate":    {time.Second * 32 / 500, time.Second * 32 / 5000, 250},
		"ten times all of it":   {time.Second * 32 / 500, time.Second / 5000, 250},
		"they leave half of it": {time.Second * 64 / 500, time.Second / 5000, 4500},
		"they ask now and then": {3 * time.Second, time.Second / 5000, 9000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := func(flood bool) (each [honest]int, flooded int) {
					_, s := newFairRate(limits.FairRateConfig{PerSecond: 500, Burst: 1000})
					var wg sync.WaitGroup
					if flood {
						wg.Go(func() { flooded = ask(t, s, honest, c.flood, length+5*time.Second) })
						time.Sleep(5 * time.Second) // it has all that it can get alone
					}
					for i := range honest {
						wg.Go(func() {
							time.Sleep(c.honest * time.Duration(i) / honest)
							each[i] = ask(t, s, i, c.honest, length)
						})
					}
					wg.Wait()
					return each, flooded
				}
				alone, _ := count(false)
				beside, flooded := count(true)
				for i := range honest {
					if 10*beside[i] < 9*alone[i] {
						t.Errorf("client %d: %d of %d", i, beside[i], alone[i])
					}
				}
				if flooded < c.least {
					t.Errorf("the flood got %d", flooded)
				}
			})
		})
	}
}

// TestFairRateTotal: whoever asks how much, all together get what the rate allows,
// and each no more than its places.
func TestFairRateTotal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := limits.FairRateConfig{
			PerSecond: rapid.Float64Range(1, 1000).Draw(rt, "rate"), Burst: rapid.IntRange(1, 200).Draw(rt, "burst"),
			Each: rapid.Int64Range(0, 5).Draw(rt, "each"),
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, 9).Draw(rt, "key"), rapid.IntRange(0, 50).Draw(rt, "wait"),
				rapid.IntRange(0, 2).Draw(rt, "leave")}
		}), 0, 400).Draw(rt, "steps")
		synctest.Test(t, func(*testing.T) {
			reg, s := newFairRate(c)
			begun, in := time.Now(), 0
			held := map[int][]*limits.Share[int]{}
			for _, step := range steps {
				key := step[0]
				time.Sleep(time.Duration(step[1]) * time.Millisecond)
				if h := held[key]; step[2] == 0 && len(h) > 0 {
					h[0].Leave()
					held[key] = h[1:]
				}
				share, err := s.Enter(key)
				switch full := c.Each > 0 && int64(len(held[key])) == c.Each; {
				case full != (status.Of(err) == status.Busy):
					rt.Fatalf("%d of %d places: %v", len(held[key]), c.Each, err)
				case err == nil:
					in++
					held[key] = append(held[key], share)
				}
			}
			if most := float64(c.Burst) + time.Since(begun).Seconds()*c.PerSecond + 1e-6; float64(in) > most {
				rt.Fatalf("%d got in, at most %f may", in, most)
			}
			fullest := 0
			for _, h := range held {
				fullest = max(fullest, len(h))
			}
			for _, i := range reg.Snapshot() {
				if i.Name == "each" && c.Each > 0 && i.Current != int64(fullest) {
					rt.Fatalf("%d are taken, it says %d", fullest, i.Current)
				}
			}
		})
	})
}

// TestFairRateWithoutBounds: what is not bounded has a capacity of 0 and costs nothing.
func TestFairRateWithoutBounds(t *testing.T) {
	reg, s := newFairRate(limits.FairRateConfig{})
	if got := testing.AllocsPerRun(100, func() {
		share, err := s.Enter(1)
		if err != nil {
			t.Error(err)
		}
		share.Leave()
	}); got != 0 || capacity(t, reg, "rate") != 0 || capacity(t, reg, "each") != 0 {
		t.Errorf("%v allocations, %+v", got, reg.Snapshot())
	}
}

// TestFairRateForget: keys that come once each do not add up, and those in flight
// keep their places.
func TestFairRateForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFairRate(limits.FairRateConfig{Each: 1})
		if _, err := s.Enter(-1); err != nil {
			t.Fatal(err)
		}
		for i := range 40_000 {
			share, err := s.Enter(i)
			if err != nil {
				t.Fatal(err)
			}
			share.Leave()
			time.Sleep(time.Millisecond / 10)
		}
		if n := s.Len(); n > 16_384+1 {
			t.Errorf("%d keys are remembered", n)
		}
		if _, err := s.Enter(-1); status.Of(err) != status.Busy {
			t.Errorf("who has its place got another: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := s.Enter(0); err != nil {
			t.Fatal(err)
		}
		if n := s.Len(); n != 2 {
			t.Errorf("%d keys are remembered two minutes later", n)
		}
	})
}

func BenchmarkFairRate(b *testing.B) {
	_, s := newFairRate(limits.FairRateConfig{PerSecond: 1e9, Burst: 1 << 30, Each: 128})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		share, err := s.Enter(i & 63)
		if err != nil {
			b.Fatal(err)
		}
		share.Leave()
	}
}
