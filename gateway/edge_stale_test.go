package gateway

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"allium/gateway/fill"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// hanging returns a handler that answers with body and headers once release is closed.
func hanging(release <-chan struct{}, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		_, _ = io.WriteString(w, body)
	}
}

// impatient makes requests that may have a stale copy wait for a moment alone.
func impatient(_ *fill.Config, d *fill.Deps) { d.Params.Stale = time.Millisecond }

// TestAssetStaleSlow: while the origin hangs, everybody gets the stale copy, and one fill asks for a new one.
func TestAssetStaleSlow(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("old"), "ETag", `"v1"`))
	e := startEdge(t, o, impatient)
	do(t, http.MethodGet, e.url("a"))
	release := make(chan struct{})
	o.serve.set(hanging(release, "new", "ETag", `"v2"`, "Cache-Control", "max-age=3600"))
	e.clock.Store(20)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			a := do(t, http.MethodGet, e.url("a"))
			if a.body != "old" || a.Header.Get("Age") < "20" || a.Header.Get("Warning") != `110 - "Response is Stale"` ||
				a.Header.Get("Cache-Control") != "public, max-age=0" {
				t.Errorf("%s, %q, %v", a.Status, a.body, a.Header)
			}
		})
	}
	all.Wait()
	a := do(t, http.MethodGet, e.url("a"), "Range", "bytes=1-")
	if a.StatusCode != http.StatusPartialContent || a.body != "ld" {
		t.Errorf("%s, %q", a.Status, a.body)
	}
	if n := o.asked.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
	close(release)
	for do(t, http.MethodGet, e.url("a")).body != "new" {
		time.Sleep(time.Millisecond)
	}
	if n := o.asked.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestAssetStaleGone: without a copy in the store, a request waits for the origin, however slow that is.
func TestAssetStaleGone(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("old"), "ETag", `"v1"`))
	e := startEdge(t, o, impatient)
	do(t, http.MethodGet, e.url("a"))
	release := make(chan struct{})
	o.serve.set(hanging(release, "new"))
	e.clock.Store(20)
	e.fills.evict(b3.Sum([]byte("old")))
	var all sync.WaitGroup
	all.Go(func() {
		a := do(t, http.MethodGet, e.url("a"))
		if a.body != "new" || a.Header.Get("Warning") != "" || a.Header.Get("Age") != "" {
			t.Errorf("%s, %q, %v", a.Status, a.body, a.Header)
		}
	})
	for o.asked.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	all.Wait()
}

// TestAssetStaleBusy: a full queue refuses what is not here, and a stale copy is served.
func TestAssetStaleBusy(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("old"), "ETag", `"v1"`))
	e := startEdge(t, o, func(cfg *fill.Config, d *fill.Deps) { cfg.Fills, d.Params.Waiting = 1, 1 })
	do(t, http.MethodGet, e.url("a"))
	release := make(chan struct{})
	o.serve.set(hanging(release, "new"))
	e.clock.Store(20)
	var all sync.WaitGroup
	for i, path := range []string{"b", "c"} { // one runs, one waits
		all.Go(func() { do(t, http.MethodGet, e.url(path)) })
		for i == 0 && o.asked.Load() < 2 || i == 1 && e.queued() < 1 {
			time.Sleep(time.Millisecond)
		}
	}
	do(t, http.MethodGet, e.url("d")).problem(t, status.Busy)
	if a := do(t, http.MethodGet, e.url("a")); a.body != "old" || a.Header.Get("Warning") != `110 - "Response is Stale"` {
		t.Errorf("%s, %q, %v", a.Status, a.body, a.Header)
	}
	close(release)
	all.Wait()
}

// TestAssetStrict: what its origin forbids is never served stale, whether the origin fails or hangs, and not after a
// restart. A 304 changes that if it says so.
func TestAssetStrict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		control, later string // of the 200, and of the 304 after it
		strict         bool
	}{
		{"must-revalidate, max-age=5", "", true}, {"proxy-revalidate", "", true}, {"s-maxage=5", "", true},
		{"no-cache", "", true}, {"no-store", "", true}, {"private", "", true},
		{"max-age=5", "", false}, {"", "", false},
		{"max-age=5", "must-revalidate", true}, {"must-revalidate", "max-age=5", false},
	} {
		serving := func(control string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if control != "" {
					w.Header().Set("Cache-Control", control)
				}
				w.Header().Set("ETag", `"v"`)
				if r.Header.Get("If-None-Match") != "" {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				_, _ = io.WriteString(w, "old")
			}
		}
		o := newOrigin(t, serving(c.control))
		e := startEdge(t, o, impatient)
		get := func() answer { t.Helper(); return do(t, http.MethodGet, e.url("a")) }
		get()
		e.clock.Store(20)
		o.serve.set(serving(c.later))
		for get().Header.Get("Warning") != "" { // until it is validated
			time.Sleep(time.Millisecond)
		}
		e.clock.Store(40)
		o.serve.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		again := startEdge(t, o, func(cfg *fill.Config, d *fill.Deps) { impatient(cfg, d); d.Records = e.records })
		again.fills.objects.put([]byte("old"))
		again.clock.Store(40)
		for _, e := range []*edge{e, again} {
			a := do(t, http.MethodGet, e.url("a"))
			if c.strict {
				a.problem(t, status.Upstream)
			} else if a.body != "old" || a.Header.Get("Warning") == "" {
				t.Errorf("%+v: %s %s", c, a.Status, a.body)
			}
		}
		release, asked := make(chan struct{}), o.asked.Load()
		o.serve.set(hanging(release, "new"))
		var slow sync.WaitGroup
		slow.Go(func() {
			if a := get(); (a.body == "new") != c.strict {
				t.Errorf("%+v: %s %s", c, a.Status, a.body)
			}
		})
		for o.asked.Load() == asked {
			time.Sleep(time.Millisecond)
		}
		if !c.strict {
			slow.Wait()
		}
		close(release)
		slow.Wait()
	}
}
