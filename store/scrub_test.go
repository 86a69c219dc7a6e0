package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/scrub"
	"allium/store/storetest"
)

// scrubbing is a configuration with a scrub of that rate and share of the time.
func scrubbing(rate int64, duty float64) store.Config {
	cfg := tiny()
	cfg.ScrubRate, cfg.ScrubDuty = limits.Bytes(rate), duty
	return cfg
}

// cycled waits for the end of n whole cycles, which the fake clock makes quick.
func cycled(t *testing.T, s *store.Store, after time.Time) scrub.Stats {
	t.Helper()
	for i := range 1_000_000 {
		if sc := s.Stats().Scrub; !sc.Running && sc.LastEnd.After(after) {
			return sc
		}
		time.Sleep(time.Second + time.Duration(i/600)*10*time.Second)
	}
	t.Fatalf("the scrub does not end: %+v", s.Stats().Scrub)
	return scrub.Stats{}
}

// TestScrub: every object is read once a cycle, at the rate, and the next cycle
// begins when it is due.
func TestScrub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		cfg := scrubbing(100_000, 1)
		cfg.ScrubInterval = time.Hour
		s, _ := storetest.Start(t, cfg, store.Deps{Env: env.Env{Metrics: reg}, FS: vfs.NewMem()})
		begun := time.Now()
		var total int64
		for i, n := range []int{0, 1, 5000, b3.GroupSize, b3.GroupSize + 1, 20 * b3.GroupSize} {
			storetest.Put(t, s, storetest.Bytes(uint64(i), n))
			total += int64(n)
		}
		sc := cycled(t, s, begun)
		if sc.Objects != 6 || sc.Bytes != total || sc.Bad != 0 || sc.Progress != 1 {
			t.Errorf("%+v", sc)
		}
		want := float64(total) / 100_000
		if sc.LastTook < want || sc.LastTook > want+5 {
			t.Errorf("%d bytes at 100,000 a second took %v s", total, sc.LastTook)
		}
		if age := sc.Started.Sub(begun); age < 59*time.Second || age > 61*time.Second {
			t.Errorf("it began %s after the start", age)
		}
		again := cycled(t, s, sc.LastEnd)
		if gap := again.Started.Sub(sc.Started).Round(time.Minute); gap != time.Hour {
			t.Errorf("cycles begin every %s", gap)
		}
		if n := gathered(t, reg, "scrub_objects_total"); n != 12 {
			t.Errorf("%v objects are counted", n)
		}
	})
}

// gathered is the value of a metric without labels.
func gathered(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// reasons is integrity_fail_total by reason.
func reasons(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "integrity_fail_total" {
			for _, m := range f.GetMetric() {
				if n := m.GetCounter().GetValue(); n > 0 {
					why[m.GetLabel()[0].GetValue()] = n
				}
			}
		}
	}
	return why
}

// slow makes every read of an object's file take a while.
type slow struct{ each time.Duration }

func (s slow) String() string { return "slow" }

// MaybeError implements errorfs.Injector.
func (s slow) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && bytes.Contains([]byte(op.Path), []byte("/obj/")) {
		time.Sleep(s.each)
	}
	return nil
}

// TestScrubDuty: on a slow disk the share of the time holds it back, not the
// rate.
func TestScrubDuty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each = 20 * time.Millisecond
		s, _ := storetest.Start(t, scrubbing(1<<40, 0.1), store.Deps{FS: errorfs.Wrap(vfs.NewMem(), slow{each})})
		storetest.Put(t, s, storetest.Bytes(1, 16*b3.GroupSize)) // 16 groups, and 15 parents in one read
		sc := cycled(t, s, time.Now())
		want := (17 * each / 10 * 100).Seconds() // a tenth of the time
		if sc.LastTook < want*0.9 || sc.LastTook > want*1.1+2 {
			t.Errorf("it took %v s, want %v", sc.LastTook, want)
		}
	})
}

// TestScrubGoesOn: a cycle that the end of the store cut short goes on where it
// was, and objects are not read twice.
func TestScrubGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		cfg := scrubbing(4096, 1) // an object a second
		reg := prometheus.NewRegistry()
		s, stop := storetest.Start(t, cfg, store.Deps{Env: env.Env{Metrics: reg}, FS: disk})
		p := storetest.Bytes(1, 4096)
		const objects = 400
		for i := range objects {
			binary.LittleEndian.PutUint64(p, uint64(i))
			if _, err := s.PutBytes(t.Context(), p, store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(4 * time.Minute)
		half := s.Stats().Scrub
		if !half.Running || half.Objects < 100 || half.Objects > 300 || half.Progress < 0.2 || half.Progress > 0.8 {
			t.Fatalf("after four minutes: %+v", half)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		first := gathered(t, reg, "scrub_objects_total")
		time.Sleep(time.Hour)
		reg = prometheus.NewRegistry()
		s, _ = storetest.Start(t, cfg, store.Deps{Env: env.Env{Metrics: reg}, FS: disk})
		sc := cycled(t, s, half.Started)
		if sc.Objects != objects || !sc.Started.Equal(half.Started.Truncate(time.Second)) {
			t.Errorf("at its end: %+v", sc)
		}
		if second := gathered(t, reg, "scrub_objects_total"); first+second != objects {
			t.Errorf("%v objects before and %v after: want %d", first, second, objects)
		}
	})
}

// TestScrubFinds: damage that nobody has read is found, marked and told, once;
// an object that the disk cannot read is counted and left as it is.
func TestScrubFinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		small, large, unread, good := storetest.Bytes(1, 3000), storetest.Bytes(2, 5*b3.GroupSize),
			storetest.Bytes(3, 2*b3.GroupSize), storetest.Bytes(4, 7*b3.GroupSize)
		hex := b3.Sum(unread).Hex()
		f := &fault{err: syscall.EIO, kinds: []errorfs.OpKind{errorfs.OpFileReadAt}, path: hex}
		reg := prometheus.NewRegistry()
		var mu sync.Mutex
		told := map[b3.Root]int{}
		s, _ := storetest.Start(t, scrubbing(1<<30, 1),
			store.Deps{Env: env.Env{Metrics: reg}, FS: errorfs.Wrap(disk, f),
				Damaged: func(root b3.Root) {
					mu.Lock()
					defer mu.Unlock()
					told[root]++
				}})
		for _, p := range [][]byte{small, large, unread, good} {
			storetest.Put(t, s, p)
		}
		flipByte(t, disk, "/store/seg/0000000000000001.seg", 400)
		name := b3.Sum(large).Hex()
		flipByte(t, disk, "/store/obj/"+name[:2]+"/"+name, 3*b3.GroupSize+17)
		f.on.Store(true)
		sc := cycled(t, s, time.Now())
		f.on.Store(false)
		if sc.Objects != 4 || sc.Bad != 3 || sc.LastBad != 3 {
			t.Errorf("%+v", sc)
		}
		for _, p := range [][]byte{small, large} {
			_, err := s.Open(t.Context(), b3.Sum(p))
			storetest.Want(t, err, status.Corrupt)
		}
		storetest.Holds(t, s, unread)
		storetest.Holds(t, s, good)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 2 || told[b3.Sum(small)] != 1 || told[b3.Sum(large)] != 1 {
			t.Errorf("told of %v", told)
		}
		if why := reasons(t, reg); len(why) != 2 || why["digest"] != 2 || why["io"] != 1 {
			t.Errorf("counted are %v", why)
		}
	})
}

// TestScrubHoldsNothing: an object can be deleted while it is being checked, and
// that is no damage.
func TestScrubHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := storetest.Start(t, scrubbing(b3.GroupSize, 1), store.Deps{FS: vfs.NewMem()})
		root := storetest.Put(t, s, storetest.Bytes(1, 100*b3.GroupSize))
		time.Sleep(90 * time.Second)
		if sc := s.Stats().Scrub; !sc.Running {
			t.Fatalf("it is not under way: %+v", sc)
		}
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if sc := cycled(t, s, time.Now()); sc.Bad != 0 || s.Stats().Corrupt != 0 {
			t.Errorf("%+v", sc)
		}
	})
}

// TestScrubRaces: puts and deletes while the scrub goes round and round. What
// is whole is never taken for damaged.
func TestScrubRaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := scrubbing(1<<30, 1)
		cfg.ScrubInterval = time.Minute
		told := make(chan b3.Root, 1)
		s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem(), Damaged: func(root b3.Root) {
			select {
			case told <- root:
			default:
			}
		}})
		rounds := 200
		if testing.Short() {
			rounds = 50
		}
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range rounds {
					p := storetest.Bytes(uint64(w), []int{700, 3 * b3.GroupSize}[i%2])
					if _, err := s.PutBytes(t.Context(), p, store.PutOptions{}); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(7 * time.Second)
					for {
						err := s.Delete(t.Context(), b3.Sum(p))
						if err == nil {
							break
						}
						if status.Of(err) != status.Conflict {
							t.Error(err)
							return
						}
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
		select {
		case root := <-told:
			t.Errorf("%s is taken for damaged", root)
		default:
		}
		if sc := s.Stats().Scrub; sc.Bad != 0 || sc.LastBad != 0 || sc.LastEnd.IsZero() {
			t.Errorf("%+v", sc)
		}
	})
}

// TestScrubReconfigured: a scrub that is off begins when it gets a rate, one that is under way stands still at 0,
// and goes on at the new rate.
func TestScrubReconfigured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := scrubbing(0, 1)
		s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
		storetest.Put(t, s, storetest.Bytes(1, 100*b3.GroupSize))
		begun := time.Now()
		time.Sleep(time.Hour)
		checked := func() int64 { return s.Stats().Scrub.Bytes }
		if checked() != 0 || s.Stats().Scrub.Running {
			t.Fatalf("it is off: %+v", s.Stats().Scrub)
		}
		cfg.ScrubRate = b3.GroupSize
		s.Reconfigure(cfg)
		time.Sleep(time.Minute + 20*time.Second)
		if !s.Stats().Scrub.Running {
			t.Fatalf("it does not run: %+v", s.Stats().Scrub)
		}
		cfg.ScrubRate = 0
		s.Reconfigure(cfg)
		time.Sleep(time.Hour)
		if !s.Stats().Scrub.Running {
			t.Fatalf("it went on: %+v", s.Stats().Scrub)
		}
		cfg.ScrubRate = 100 * b3.GroupSize
		s.Reconfigure(cfg)
		now := time.Now()
		if sc := cycled(t, s, begun); sc.Objects != 1 || sc.LastEnd.Sub(now) > 5*time.Second {
			t.Errorf("%+v, %s after it got a rate", sc, sc.LastEnd.Sub(now))
		}
	})
}

// TestScrubOff: a rate of 0 and the memory backend have no scrub, and its
// configuration has bounds.
func TestScrubOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		off, ram := scrubbing(0, 1), store.DefaultConfig()
		ram.Backend = store.BackendMemory
		for _, cfg := range []store.Config{off, ram} {
			s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
			storetest.Put(t, s, storetest.Bytes(1, 1000))
			time.Sleep(time.Hour)
			if sc := s.Stats().Scrub; sc != (scrub.Stats{}) {
				t.Errorf("%+v", sc)
			}
		}
		for _, change := range []func(*store.Config){
			func(c *store.Config) { c.ScrubRate = -1 }, func(c *store.Config) { c.ScrubInterval = time.Second },
		} {
			cfg := scrubbing(1, 1)
			change(&cfg)
			if err := cfg.Validate(); err == nil {
				t.Errorf("%+v is taken", cfg)
			}
		}
	})
}

// TestScrubStops: the end of the store ends a rest.
func TestScrubStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, stop := storetest.Start(t, scrubbing(1, 1), store.Deps{FS: vfs.NewMem()})
		storetest.Put(t, s, storetest.Bytes(1, 20*b3.GroupSize)) // two weeks of it
		time.Sleep(2 * time.Minute)
		begun := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the store took %s to stop", took)
		}
		if s.Stats().Scrub.Objects != 0 || context.Cause(t.Context()) != nil {
			t.Error("it was not under way")
		}
	})
}
