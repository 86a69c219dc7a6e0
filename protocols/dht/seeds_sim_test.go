package dht

import (
	"testing"
	"testing/synctest"
	"time"
)

// reachable is the gate bootstrap: seeds that are connected.
func (s *Service) reachable() (n int) {
	for _, seed := range s.Seeds() {
		if seed.Connected {
			n++
		}
	}
	return n
}

// TestSeedsDown: with one seed down the others do; with all down nobody is let
// go who is there, the seeds are dialled ever more seldom, and when they are
// back the node is too.
func TestSeedsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seeds, n = 3, 6
		sn := newSimNet(t, n)
		defer sn.close()
		sn.vanish(seeds - 1)
		services, stop := sn.startAll(func(cfg *Config, _ *Deps) {
			cfg.Seeds.Bootstrap = nil
			for i := range seeds {
				cfg.Seeds.Bootstrap = append(cfg.Seeds.Bootstrap, sn.addr(i))
			}
		})
		defer stop()
		node, other := services[n-1], services[n-2]
		within(t, 10*time.Second, "two seeds", func() bool { return node.reachable() == seeds-1 })
		within(t, 30*time.Second, "a filled table", node.filled)
		time.Sleep(2 * time.Minute)
		down := node.Seeds()[seeds-1]
		if down.Connected || down.Tries == 0 || down.LastError == "" || !down.LastSuccess.IsZero() {
			t.Errorf("the seed that is down: %+v", down)
		}
		roots, owner := publish(t, []*Service{other}, 1)
		if !finds(t, node, roots[0], owner[roots[0]]) {
			t.Error("nothing is found with a seed down")
		}

		for i := range seeds {
			sn.vanish(i)
		}
		took := within(t, time.Minute, "no seed", func() bool { return node.reachable() == 0 })
		t.Logf("the seeds are missed after %s", took)
		tries, dials, rate := node.Seeds()[0].Tries, sn.dials[n-1].Load(), []int64{}
		for range 4 {
			time.Sleep(5 * time.Minute)
			now := sn.dials[n-1].Load()
			rate, dials = append(rate, now-dials), now
		}
		t.Logf("dials in each five minutes: %d; of one seed %d in all", rate, node.Seeds()[0].Tries-tries)
		// 1, 5, 15, 60 and 300 s, less a fifth, 5 s of dialling after each.
		if got := node.Seeds()[0].Tries - tries; got < 4+2 || got > 4+4 {
			t.Errorf("%d dials of a seed in 20 minutes", got)
		}
		for i, most := range []int64{24, 8, 8, 8} { // each seed twice in five minutes, and hardly anybody else
			if rate[i] > most {
				t.Errorf("%d dials in five minutes, more than %d", rate[i], most)
			}
		}
		if node.reachable() != 0 {
			t.Error("seeds that are down are reachable")
		}
		if !node.has(other.self) || !finds(t, node, roots[0], owner[roots[0]]) {
			t.Error("without seeds the peers that are there do not do")
		}

		for i := range seeds {
			sn.back(i)
		}
		took = within(t, 6*time.Minute+10*time.Second, "all seeds again",
			func() bool { return node.reachable() == seeds })
		t.Logf("all seeds are back after %s", took)
		within(t, 15*time.Minute, "a filled table", func() bool { return node.filled() && node.TableSize() == n-1 })
	})
}
