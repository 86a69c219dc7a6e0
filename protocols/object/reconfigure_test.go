package object

import (
	"testing"
	"testing/synctest"

	"allium/internal/testkit"
)

// TestReconfigure: a peer whose stream is open has as many requests in flight as the reload allows.
func TestReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.PeerInflight = 1
		p := newPair(t, testkit.Options{}, cfg)
		root := p.store.put(testData(10, 1))
		a := p.ask(t)
		a.want(100, getOf(root))
		if f, _ := a.end(); f.Code != 200 {
			t.Fatalf("%d", f.Code)
		}
		synctest.Wait() // the answer is here before its place is given back
		cfg.PeerInflight, cfg.Serving, cfg.EgressBytes, cfg.MinRate = 3, 7, 9<<20, 123
		p.server.Reconfigure(cfg)
		p.store.gate = make(chan struct{})
		for i := range 4 {
			a.want(uint64(i), getOf(root))
		}
		synctest.Wait()
		close(p.store.gate)
		served := 0
		for range 4 {
			if f, _ := a.end(); f.Code == 200 {
				served++
			}
		}
		if served != 3 {
			t.Errorf("%d are served, want 3", served)
		}
		if rate := p.server.cfg.Load().MinRate; rate != 123 {
			t.Errorf("min_rate %s", rate)
		}
	})
}
