package updates

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/name"
	"allium/resolver/names/lookup"
)

// TestHoldersFlap: half of the holders of records come and go, ten seconds each. Of the resolves at
// least 99.9 % succeed, in 500 ms at the 99th percentile.
func TestHoldersFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, most := nodes, 500*time.Millisecond
		if testing.Short() { // a quarter of the connections, and of a hundred resolves p99 is the slowest
			nodes, most = nodes/2, time.Second
		}
		w := newNetwork(t, nodes)
		defer w.close()
		const labels = 10
		var all []name.Name
		for i := range labels {
			rec := w.record(fmt.Sprintf("name-%c", 'a'+i), "value")
			all = append(all, rec.Name)
			if err := w.nodes[0].publish(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		ctx := t.Context()
		stop := make(chan struct{})
		var flapping sync.WaitGroup
		for i := nodes / 2; i < nodes; i++ {
			flapping.Go(func() {
				pause := time.Duration(i-nodes/2) * time.Second // not all at one moment
				for away := false; ; away = !away {
					select {
					case <-stop:
						w.away.Delete(w.Socket(i))
						return
					case <-time.After(pause):
					}
					if pause = 10 * time.Second; away {
						w.away.Delete(w.Socket(i))
					} else {
						w.away.Store(w.Socket(i), true)
					}
				}
			})
		}
		var mu sync.Mutex
		var took []time.Duration
		failed := map[string]int{}
		for range unlessShort(100) {
			var asking sync.WaitGroup
			for i := range nodes / 2 {
				asking.Go(func() {
					begun := time.Now()
					_, err := w.nodes[i].resolve(ctx, all[i%labels], lookup.Options{Fresh: true})
					mu.Lock()
					defer mu.Unlock()
					took = append(took, time.Since(begun))
					if err != nil {
						failed[err.Error()]++
					}
				})
			}
			asking.Wait()
			time.Sleep(2 * time.Second)
		}
		close(stop)
		flapping.Wait()
		lost := 0
		for _, n := range failed {
			lost += n
		}
		p99 := quantile(took, 0.99)
		t.Logf("%d of %d failed %v; %s at the median, %s at p99, %s at most", lost, len(took),
			failed, quantile(took, 0.5),
			p99, took[len(took)-1])
		if lost*1000 > len(took) || p99 > most {
			t.Errorf("wanted 99.9 %% to succeed, and %s at p99", most)
		}
	})
}
