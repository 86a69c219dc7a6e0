package fill

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/fill/origin"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// panickingRecords is a database that takes its time, and of which every second call panics.
type panickingRecords struct {
	calls, running atomic.Int64
}

func (r *panickingRecords) Get(context.Context, string) ([]byte, error) {
	n := r.calls.Add(1)
	r.running.Add(1)
	defer r.running.Add(-1)
	time.Sleep(100 * time.Millisecond)
	if n%2 == 0 {
		panic("chaos")
	}
	return nil, nil
}

func (*panickingRecords) Put(context.Context, string, []byte) error { return nil }

// TestChaos: half of the fills panic under a load that the queue cannot hold. All who wait are answered, no worker is
// lost, and the gate is shut while fills are refused and open again within a second after the load.
func TestChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, p := DefaultConfig(), DefaultParams()
		cfg.Fills, p.Waiting = 8, 64
		db := &panickingRecords{}
		s, err := New(cfg, Deps{Store: noStore{t}, Records: db, Params: p})
		if err != nil {
			t.Fatal(err)
		}
		src := &source{name: "o"}
		src.client, err = origin.New(origin.Config{Source: "o", URLs: []string{"https://o.invalid/"}}, origin.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run, waiting sync.WaitGroup
		run.Go(func() {
			if err := s.Run(ctx, func() {}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		var ends [256]atomic.Int64 // by outcome
		n := 0
		ask := func() {
			n++
			f := (&flight{key: pathKey(b3.Sum(fmt.Append(nil, n))), source: src, path: "..", queued: time.Now(),
				client: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n % 4)}), 32)}).init()
			waiting.Go(func() {
				f, err := s.join(f)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.leave()
				now, _ := f.wait(t.Context(), func(state) bool { return false })
				ends[status.Of(now.err)].Add(1)
			})
		}
		shut := func() bool {
			waiting, capacity, refuses := s.Refuses()
			if refuses && (2*waiting < capacity || capacity != 64) {
				t.Errorf("%d of %d wait, and fills are refused", waiting, capacity)
			}
			return refuses
		}
		shutAt := 0
		for i := range 300 { // three seconds of 200 fills in each; the workers end 80
			ask()
			ask()
			time.Sleep(10 * time.Millisecond)
			if shut() && shutAt == 0 {
				shutAt = i
			}
			if shutAt == 0 != (ends[status.Busy].Load() == 0) || shutAt > 0 && !shut() {
				t.Fatalf("step %d: shut since %d, %d refused", i, shutAt, ends[status.Busy].Load())
			}
		}
		for polls := 0; shut(); polls++ {
			if polls == 10 {
				t.Fatal("a second after the load, the gate is still shut")
			}
			time.Sleep(100 * time.Millisecond)
		}
		waiting.Wait()
		internal, fine, busy := ends[status.Internal].Load(), ends[status.BadAddress].Load(), ends[status.Busy].Load()
		if internal+fine+busy != int64(n) || internal < 100 || fine < 100 || busy < 100 {
			t.Errorf("of %d fills, %d panicked, %d ended and %d were refused", n, internal, fine, busy)
		}
		for range cfg.Fills {
			ask()
		}
		time.Sleep(time.Millisecond)
		if n := db.running.Load(); n != int64(cfg.Fills) {
			t.Errorf("%d workers are left", n)
		}
		waiting.Wait()
		cancel()
		run.Wait()
	})
}
