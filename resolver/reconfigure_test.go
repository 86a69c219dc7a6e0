package resolver

import (
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
)

// TestReconfigure: a look-up that begins after a reload has its deadline, and one that runs keeps the one before.
func TestReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.finder.hang = true
		begun, cfg, old := time.Now(), *w.cfg.Load(), *w.cfg.Load()
		took := make(chan time.Duration, 1)
		go func() {
			_ = w.fetch(t, randomBlob(1, 10))
			took <- time.Since(begun)
		}()
		time.Sleep(old.Deadline / 2)
		cfg.Deadline, cfg.Fetches = 3*old.Deadline, 7
		w.Reconfigure(cfg)
		if err := w.fetch(t, randomBlob(2, 10)); status.Of(err) != status.Timeout {
			t.Errorf("%v", err)
		}
		if d := time.Since(begun); d != old.Deadline/2+cfg.Deadline {
			t.Errorf("the second gave up after %s", d)
		}
		if d := <-took; d != old.Deadline {
			t.Errorf("the first gave up after %s", d)
		}
	})
}
