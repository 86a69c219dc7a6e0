package dht

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/routing"
	"allium/protocols/status"
)

// chaos is the configuration of nodes to which something happens: k is small,
// so that not everybody is everything, and tables are refreshed every minute or
// so.
func chaos(cfg *Config, _ *Deps) {
	cfg.K = 8
	cfg.Refresh = time.Minute
}

// settle is the time in which every table of a chaos network has been refreshed
// twice.
const settle = 150 * time.Second

// publish provides objects by the services, one after the other.
func publish(t testing.TB, by []*Service, n int) (roots []b3.Root, owner map[b3.Root]peer.ID) {
	t.Helper()
	owner = map[b3.Root]peer.ID{}
	for i := range n {
		r, s := root(fmt.Sprint("object ", i)), by[i%len(by)]
		if _, err := s.Provide(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		roots = append(roots, r)
		owner[r] = s.self
	}
	return roots, owner
}

// finds reports whether s finds want by asking others.
func finds(t testing.TB, s *Service, r b3.Root, want peer.ID) bool {
	t.Helper()
	start := time.Now()
	found, err := collect(s.FindProviders(t.Context(), r, FindOptions{Limit: 1, Fresh: true}))
	if took := time.Since(start); took > s.cfg.Load().FindTimeout {
		t.Errorf("a lookup took %s", took)
	}
	if len(found) == 0 && err == nil && s.self != want {
		t.Error("a lookup that found nobody ended without an error")
	}
	return s.self == want || len(found) == 1 && found[0].ID == want
}

// has reports whether p is in the routing table.
func (s *Service) has(p peer.ID) bool {
	return slices.ContainsFunc(s.Table(), func(e routing.Entry) bool { return e.ID == p })
}

// TestKilled: a fifth of the nodes vanishes without a word while lookups run.
// What the others provide is found all the same and in time; the dead leave the
// tables, and when they are back they come back.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		const n, dead = 20, 4
		sn := newSimNet(t, n)
		defer sn.close()
		services, stop := sn.startAll(chaos)
		defer stop()
		time.Sleep(settle)
		alive, gone := services[:n-dead], services[n-dead:]
		roots, owner := publish(t, alive, 20)

		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 100 {
			if i >= 10 && i < 10+dead {
				sn.vanish(n - dead + i - 10)
			}
			s, r := alive[rng.IntN(len(alive))], roots[rng.IntN(len(roots))]
			if !finds(t, s, r, owner[r]) {
				t.Errorf("lookup %d found nobody", i)
			}
		}

		held := func() (n int) {
			for _, s := range alive {
				for _, g := range gone {
					if s.has(g.self) {
						n++
					}
				}
			}
			return n
		}
		if held() == 0 {
			t.Error("the dead were in no table")
		}
		took := within(t, 2*settle, "no table has the dead", func() bool { return held() == 0 })
		t.Logf("the dead left the tables after %s", took)
		for i := range gone {
			sn.back(n - dead + i)
		}
		took = within(t, 10*time.Minute, "the dead are back", func() bool {
			return !slices.ContainsFunc(gone, func(g *Service) bool {
				return !g.filled() || !slices.ContainsFunc(alive, func(s *Service) bool { return s.has(g.self) })
			})
		})
		t.Logf("the dead came back after %s", took)
		for _, g := range gone {
			for _, r := range roots[:4] {
				if !finds(t, g, r, owner[r]) {
					t.Error("one that came back does not find what is there")
				}
			}
		}
	})
}

// TestPartition: while the network is in two, each half finds what it holds,
// and an answer that may lack something says so. Afterwards everybody finds
// everything again.
func TestPartition(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		const n = 16
		sn := newSimNet(t, n)
		defer sn.close()
		services, stop := sn.startAll(chaos)
		defer stop()
		time.Sleep(settle)
		halves := [][]*Service{services[:n/2], services[n/2:]}
		roots, owner := publish(t, services, n)

		for i := range halves[1] {
			sn.Split(n/2+i, "other")
		}
		// held says whether the half has a record that s can ask for.
		held := func(half []*Service, s *Service, r b3.Root) bool {
			return slices.ContainsFunc(half,
				func(o *Service) bool { return o != s && len(o.store.get(r, 1, time.Now())) > 0 })
		}
		look := func(when string, whole bool) {
			t.Helper()
			rng := rand.New(rand.NewPCG(2, 2))
			var there, found, errs, lacking int
			for range 60 {
				half := halves[rng.IntN(2)]
				s, r := half[rng.IntN(len(half))], roots[rng.IntN(len(roots))]
				for owner[r] == s.self {
					r = roots[rng.IntN(len(roots))]
				}
				if !held(half, s, r) {
					continue
				}
				there++
				got, err := collect(s.FindProviders(t.Context(), r, FindOptions{Fresh: true}))
				switch {
				case err != nil && status.Of(err) != status.Timeout:
					t.Errorf("%s: %v", when, err)
				case err != nil:
					errs++
				case len(got) == 0:
					lacking++
				}
				if len(got) == 1 && got[0].ID == owner[r] {
					found++
				}
			}
			t.Logf("%s: of %d held, %d found, %d timeouts", when, there, found, errs)
			if lacking > 0 {
				t.Errorf("%s: %d lookups seemed whole and lacked what the half holds", when, lacking)
			}
			if found*100 < there*95 || whole && (found != there || errs > 0) {
				t.Errorf("%s: %d of %d found, %d timeouts", when, found, there, errs)
			}
		}
		look("at once", false)
		time.Sleep(2 * settle)
		look("apart", true)
		for i, s := range services {
			for _, e := range s.Table() {
				if slices.ContainsFunc(halves[1-i/(n/2)], func(o *Service) bool { return o.self == e.ID }) {
					t.Errorf("host %d still has one of the other half", i)
				}
			}
		}

		for i := range halves[1] {
			sn.Split(n/2+i, nil)
		}
		// The last tier is 5 min ± 20 %, and a dial into the rest of the outage may fail.
		took := within(t, time.Hour, "everybody finds the other half", func() bool {
			return !slices.ContainsFunc(halves[1], func(s *Service) bool { return !s.Seeds()[0].Connected })
		})
		t.Logf("the seed is back after %s", took)
		time.Sleep(settle)
		for i, s := range services {
			if !s.filled() {
				have, need, known := s.Fill()
				t.Errorf("host %d has %d of %d (%t)", i, have, need, known)
			}
		}
		for i, r := range roots {
			for _, half := range halves {
				if s := half[i%len(half)]; !finds(t, s, r, owner[r]) {
					t.Errorf("object %d is not found after the partition", i)
				}
			}
		}
	})
}

// TestLoss: of every hundred packets five are lost, from the start; lookups
// find what is there.
func TestLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		const n, lookups = 16, 100
		sn := newSimNet(t, n)
		defer sn.close()
		sn.loss.Store(5)
		services, stop := sn.startAll(chaos)
		defer stop()
		time.Sleep(settle)
		roots, owner := publish(t, services, 10)
		rng := rand.New(rand.NewPCG(3, 3))
		m := measured{name: "5 % loss"}
		for range lookups {
			s, r := services[rng.IntN(n)], roots[rng.IntN(len(roots))]
			for owner[r] == s.self {
				r = roots[rng.IntN(len(roots))]
			}
			start := time.Now()
			found := finds(t, s, r, owner[r])
			m.add(time.Since(start), 0, found)
		}
		t.Log(&m)
		if m.failed > lookups/100 {
			t.Errorf("%d of %d lookups failed", m.failed, lookups)
		}
	})
}

// TestCutOff: a node that nobody answers any more does not say that nobody has
// an object, neither while it takes the others to be there nor later.
func TestCutOff(t *testing.T) {
	sizes := []int{2, 3, 12}
	if testing.Short() {
		sizes = sizes[:2] // the goroutines are those of two nodes
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sn := newSimNet(t, n)
				defer sn.close()
				services, stop := sn.startAll(chaos)
				defer stop()
				time.Sleep(30 * time.Second)
				roots, _ := publish(t, services[:1], 1)
				cut := services[n-1]
				sn.vanish(n - 1)
				for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(7 * time.Second) {
					found, err := collect(cut.FindProviders(t.Context(), roots[0], FindOptions{Fresh: true}))
					if o := status.Of(err); len(found) > 0 || o != status.Timeout && o != status.NoBootstrap {
						t.Fatalf("%s after the cut, with %d in the table: %v, %v", settle-time.Until(end),
							cut.TableSize(), found, err)
					}
				}
				if cut.filled() {
					t.Error("it is ready")
				}
			})
		})
	}
}
