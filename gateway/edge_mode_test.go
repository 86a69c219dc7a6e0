package gateway

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"allium/gateway/fill"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestAssetModeReconfigured: when a reload takes the origins offline, the fills that run and wait end, also one of a
// source that an earlier reload has replaced; stale copies are served; and no request leaves until they are live again.
func TestAssetModeReconfigured(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("old"), "ETag", `"v"`))
	cfg := fill.DefaultConfig()
	e := startEdge(t, o, func(c *fill.Config, _ *fill.Deps) {
		c.Fills = 2
		cfg = *c
	})
	if a := do(t, http.MethodGet, e.url("old")); a.body != "old" {
		t.Fatal(a.Status)
	}
	never := make(chan struct{})
	defer close(never)
	o.serve.set(hanging(never, "never"))
	e.clock.Store(1e6)
	var all sync.WaitGroup
	for _, path := range []string{"a", "b", "c"} { // c waits
		all.Go(func() { do(t, http.MethodGet, e.url(path)).problem(t, status.NotFound) })
	}
	all.Go(func() {
		if a := do(t, http.MethodGet, e.url("old")); a.body != "old" ||
			a.Header.Get("Warning") != `112 - "Disconnected Operation"` {
			t.Errorf("%s %s, %v", a.Status, a.body, a.Header)
		}
	})
	testkit.Eventually(t, "two fills run and two wait", func() bool {
		waiting, _, _ := e.service.Refuses()
		return o.asked.Load() == 3 && waiting == 2
	})
	e.service.Reconfigure(cfg) // the ca_file is read again: another source
	cfg.Mode = fill.Offline
	e.service.Reconfigure(cfg)
	all.Wait()
	do(t, http.MethodGet, e.url("d")).problem(t, status.NotFound)
	if n := o.asked.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
	o.serve.set(sending([]byte("new"), "ETag", `"w"`))
	cfg.Mode = fill.Live
	e.service.Reconfigure(cfg)
	for _, path := range []string{"old", "a", "d"} {
		if a := do(t, http.MethodGet, e.url(path)); a.body != "new" {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
}

// TestAssetModeBody: an answer that arrives is cut when the origins go offline, and its reader sees that.
func TestAssetModeBody(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	defer close(next)
	o := newOrigin(t, steps(make([]byte, 1<<20), next))
	cfg := fill.DefaultConfig()
	e := startEdge(t, o, func(c *fill.Config, _ *fill.Deps) { cfg = *c })
	cut := make(chan error, 1)
	started := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		resp, err := http.Get(e.url("a"))
		close(started)
		if err != nil {
			cut <- err
			return
		}
		defer resp.Body.Close()
		_, err = resp.Body.Read(make([]byte, 1<<20))
		for err == nil {
			_, err = resp.Body.Read(make([]byte, 1<<20))
		}
		cut <- err
	})
	next <- struct{}{}
	<-started
	cfg.Mode = fill.Offline
	e.service.Reconfigure(cfg)
	if err := <-cut; err == nil || err.Error() == "EOF" {
		t.Errorf("the answer ends with %v", err)
	}
	all.Wait()
}

// TestAssetFillsReconfigured: more fills run as soon as there may be more, and after a reload to fewer those that run
// end first.
func TestAssetFillsReconfigured(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	o := newOrigin(t, hanging(end, "there"))
	cfg := fill.DefaultConfig()
	var ended atomic.Int64
	e := startEdge(t, o, func(c *fill.Config, _ *fill.Deps) {
		c.Fills = 1
		cfg = *c
	})
	var all sync.WaitGroup
	get := func(path string) {
		all.Go(func() {
			if a := do(t, http.MethodGet, e.url(path)); a.body != "there" {
				t.Errorf("%s: %s", path, a.Status)
			}
			ended.Add(1)
		})
	}
	fills := func(n int) {
		cfg.Fills = n
		e.service.Reconfigure(cfg)
	}
	waiting := func() int { n, _, _ := e.service.Refuses(); return n }
	for _, path := range []string{"a", "b", "c", "d", "e", "f"} {
		get(path)
	}
	testkit.Eventually(t, "one runs", func() bool { return o.asked.Load() == 1 && waiting() == 5 })
	fills(3)
	testkit.Eventually(t, "three run", func() bool { return o.asked.Load() == 3 && waiting() == 3 })
	fills(1)
	end <- struct{}{}
	end <- struct{}{}
	testkit.Eventually(t, "two have ended", func() bool { return ended.Load() == 2 })
	if o.asked.Load() != 3 || waiting() != 3 {
		t.Errorf("%d have run, %d wait", o.asked.Load(), waiting())
	}
	end <- struct{}{}
	testkit.Eventually(t, "the next runs", func() bool { return o.asked.Load() == 4 && waiting() == 2 })
	fills(2)
	testkit.Eventually(t, "two run", func() bool { return o.asked.Load() == 5 && waiting() == 1 })
	close(end)
	all.Wait()
}
