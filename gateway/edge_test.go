package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/gateway/content"
	"allium/gateway/fill"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// letters returns n bytes of text.
func letters(seed byte, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = 'a' + (seed+byte(i)+byte(i>>8)*7+byte(i>>16)*31)%26
	}
	return p
}

// TestAssetFilled: the first request fills, and later ones are served from the store as any object.
func TestAssetFilled(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, b3.GroupSize, b3.GroupSize + 1, 5*b3.GroupSize + 7} {
		p := letters(byte(size), size)
		o := newOrigin(t, sending(p, "ETag", `"v1"`, "Cache-Control", "max-age=3600", "Set-Cookie", "a=b",
			"Content-Type", "text/html"))
		e := startEdge(t, o, nil)
		a := do(t, http.MethodGet, e.url("dir/a.txt")+"?secret=1", "Cookie", "b=c", "Authorization", "Basic x", "X-A", "b")
		if a.StatusCode != http.StatusOK || a.body != string(p) || a.err != nil {
			t.Fatalf("%d bytes: %s, %d bytes, %v", size, a.Status, len(a.body), a.err)
		}
		if got := a.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" || a.Header.Get("Set-Cookie") != "" {
			t.Errorf("%d bytes: %v", size, a.Header)
		}
		tag := `"` + b3.Sum(p).String() + `"`
		a = do(t, http.MethodGet, e.url("dir/a.txt"))
		if a.body != string(p) || a.Header.Get("ETag") != tag || a.Header.Get("Cache-Control") != "public, max-age=3599" ||
			a.Header.Get("Content-Security-Policy") != contentPolicy {
			t.Errorf("%d bytes, stored: %s, %v", size, a.Status, a.Header)
		}
		if a = do(t, http.MethodGet, e.url("dir/a.txt"), "If-None-Match", tag); a.StatusCode != http.StatusNotModified {
			t.Errorf("%d bytes: %s", size, a.Status)
		}
		a = do(t, http.MethodGet, e.url("dir/a.txt")+"?format=bao")
		if a.StatusCode != http.StatusOK || len(a.body) < 8+size {
			t.Errorf("%d bytes: %s, %d bytes", size, a.Status, len(a.body))
		}
		if size > 1 {
			a = do(t, http.MethodGet, e.url("dir/a.txt"), "Range", "bytes=1-")
			if a.StatusCode != http.StatusPartialContent || a.body != string(p[1:]) {
				t.Errorf("%d bytes: %s", size, a.Status)
			}
		}
		if n := o.asked.Load(); n != 1 {
			t.Errorf("%d bytes: %d requests", size, n)
		}
		for e.fills.held.Load() != 0 { // the first answer ends before its request leaves the fill
			time.Sleep(time.Millisecond)
		}
		events := e.audit.all()
		if len(events) != 2 || events[0].Op != "fill" || events[0].Name != "o" || events[0].Detail != "dir/a.txt" ||
			events[1].Of != 1 || events[1].Object != b3.Sum(p).String() || events[1].Outcome != "ok" {
			t.Errorf("%+v", events)
		}
	}
}

// TestAssetWaits: what is asked with a range, a condition or for the encoding waits for the whole and is answered from
// the store; HEAD waits for the header alone.
func TestAssetWaits(t *testing.T) {
	t.Parallel()
	p := letters(1, 3*b3.GroupSize)
	tag := `"` + b3.Sum(p).String() + `"`
	for name, c := range map[string]struct {
		method, query string
		headers       []string
		code          int
		etag          string
	}{
		"range":     {"GET", "", []string{"Range", "bytes=5-8"}, 206, tag},
		"last":      {"GET", "", []string{"Range", "bytes=-4"}, 206, tag},
		"outside":   {"GET", "", []string{"Range", "bytes=9999999-"}, 416, ""},
		"known":     {"GET", "", []string{"If-None-Match", tag}, 304, tag},
		"unknown":   {"GET", "", []string{"If-Match", `"x"`}, 412, ""},
		"encoding":  {"GET", "?format=bao", nil, 200, ""},
		"head":      {"HEAD", "", nil, 200, ""},
		"bad query": {"GET", "?format=zip", nil, 400, ""},
	} {
		o := newOrigin(t, sending(p, "ETag", `"v1"`))
		e := startEdge(t, o, nil)
		a := do(t, c.method, e.url("a.txt")+c.query, c.headers...)
		if a.StatusCode != c.code || c.etag != "" && a.Header.Get("ETag") != c.etag {
			t.Errorf("%s: %s, %v, %s", name, a.Status, a.Header, a.body)
		}
		if name == "head" && (a.ContentLength != int64(len(p)) || a.Header.Get("Content-Type") == "") {
			t.Errorf("%d bytes, %v", a.ContentLength, a.Header)
		}
		if name == "bad query" && o.asked.Load() != 0 {
			t.Error("the origin was asked")
		}
	}
}

// TestAssetShared: a hundred clients make one request of the origin, and each gets every group as soon as it is there.
func TestAssetShared(t *testing.T) {
	t.Parallel()
	const clients = 100
	p := letters(2, 4*b3.GroupSize+5)
	next := make(chan struct{})
	o := newOrigin(t, steps(p, next, "Content-Length", fmt.Sprint(len(p))))
	e := startEdge(t, o, nil)
	var first, all sync.WaitGroup
	first.Add(clients)
	for range clients {
		all.Go(func() {
			resp, err := (&http.Client{Transport: transport}).Get(e.url("a"))
			if err != nil {
				t.Error(err)
				first.Done()
				return
			}
			defer resp.Body.Close()
			head := make([]byte, b3.GroupSize-1)
			_, err = io.ReadFull(resp.Body, head)
			first.Done()
			rest, err2 := io.ReadAll(resp.Body)
			if err != nil || err2 != nil || !bytes.Equal(append(head, rest...), p) || resp.ContentLength != int64(len(p)) {
				t.Errorf("%v, %v, %d bytes", err, err2, len(head)+len(rest))
			}
		})
	}
	first.Wait() // the origin has sent one group
	for range 5 {
		next <- struct{}{}
	}
	all.Wait()
	if n := o.asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	for currentOf(e.bounds, "edge.waiting") > 0 {
		time.Sleep(time.Millisecond)
	}
	if e.fills.held.Load() != 0 {
		t.Error("something is left over")
	}
}

// TestAssetBreaksOff: an origin that dies half-way cuts everybody, with and without a length, and nothing is stored.
func TestAssetBreaksOff(t *testing.T) {
	t.Parallel()
	for _, length := range []bool{true, false} {
		p := letters(3, 4*b3.GroupSize)
		next := make(chan struct{})
		var headers []string
		if length {
			headers = []string{"Content-Length", fmt.Sprint(len(p))}
		}
		o := newOrigin(t, steps(p, next, headers...))
		e := startEdge(t, o, nil)
		var first, all sync.WaitGroup
		for range 10 {
			first.Add(1)
			all.Go(func() {
				resp, err := (&http.Client{Transport: transport}).Get(e.url("a"))
				first.Done()
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if got, err := io.ReadAll(resp.Body); err == nil {
					t.Errorf("%d bytes look whole", len(got))
				}
			})
		}
		first.Wait()
		close(next)
		all.Wait()
		do(t, http.MethodGet, e.url("a"), "Range", "bytes=0-1").problem(t, status.Upstream)
		if len(e.fills.objects.m) != 0 {
			t.Error("a part was stored")
		}
	}
}

// TestAssetNotKept: what cannot be stored, or becomes an object that is denied, never looks whole.
func TestAssetNotKept(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 3 * b3.GroupSize} {
		p := letters(4, size)
		for name, spoil := range map[string]func(*fakeFills){
			"full":   func(f *fakeFills) { f.full.Store(int64(size) - 1) },
			"denied": func(f *fakeFills) { f.denied.set(b3.Sum(p)) },
		} {
			e := startEdge(t, newOrigin(t, sending(p)), nil)
			spoil(e.fills)
			a := do(t, http.MethodGet, e.url("a"))
			if a.StatusCode == http.StatusOK && a.err == nil {
				t.Errorf("%s, %d bytes: %d bytes look whole", name, size, len(a.body))
			}
		}
	}
}

// TestAssetFresh: what the origin says about freshness counts within the bounds of the operator; then a copy is
// validated.
func TestAssetFresh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		control  string
		validate string
		headers  []string
		fresh    int64  // seconds
		sends    string // the header that validates
	}{
		{"max-age=60", "strict", []string{"ETag", `"v"`}, 60, "If-None-Match"},
		{"max-age=1", "strict", []string{"ETag", `"v"`}, 10, "If-None-Match"},
		{"max-age=99999999", "strict", []string{"ETag", `"v"`}, 86400, "If-None-Match"},
		{"no-store", "strict", []string{"ETag", `"v"`}, 10, "If-None-Match"},
		{"", "strict", []string{"ETag", `"v"`}, 10, "If-None-Match"},
		{"", fill.ETagDate, []string{"Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT"}, 10, "If-Modified-Since"},
		{"", fill.ETagAny, []string{"Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT"}, 10, "If-Modified-Since"},
		{"", fill.ETagAny, nil, 10, ""},
	} {
		var asked []http.Header
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header)
			if c.control != "" {
				w.Header().Set("Cache-Control", c.control)
			}
			for i := 0; i < len(c.headers); i += 2 {
				w.Header().Set(c.headers[i], c.headers[i+1])
			}
			if c.sends != "" && r.Header.Get(c.sends) != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = w.Write([]byte("there"))
		})
		e := startEdge(t, o, func(cfg *fill.Config, _ *fill.Deps) {
			src := cfg.Sources["o"]
			src.RequireETag = c.validate
			cfg.Sources["o"] = src
		})
		get := func(requests int64) {
			t.Helper()
			a := do(t, http.MethodGet, e.url("a"))
			if a.body != "there" || o.asked.Load() != requests {
				t.Errorf("%+v: %s, %q; %d requests, not %d", c, a.Status, a.body, o.asked.Load(), requests)
			}
		}
		get(1)
		e.clock.Store(c.fresh - 2)
		get(1)
		e.clock.Store(c.fresh + 1)
		get(2)
		get(2)
		if c.sends != "" && asked[1].Get(c.sends) == "" {
			t.Errorf("%+v: validated with %v", c, asked[1])
		}
	}
}

// TestAssetETagInvalid: a source is strict about what its origin must send, unless it says otherwise.
func TestAssetETagInvalid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		validate string
		headers  []string
		ok       bool
	}{
		{"strict", []string{"ETag", `"v"`}, true},
		{"strict", []string{"ETag", `W/"v"`}, false}, {"strict", nil, false},
		{"strict", []string{"Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT"}, false},
		{"date", []string{"Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT"}, true}, {"date", []string{"ETag", `"v"`}, true},
		{"date", []string{"Last-Modified", "yesterday"}, false}, {"date", nil, false}, {"any", nil, true},
	} {
		o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(c.headers); i += 2 {
				w.Header().Set(c.headers[i], c.headers[i+1])
			}
			_, _ = w.Write([]byte("x"))
		})
		e := startEdge(t, o, func(cfg *fill.Config, _ *fill.Deps) {
			src := cfg.Sources["o"]
			src.RequireETag = c.validate
			cfg.Sources["o"] = src
		})
		a := do(t, http.MethodGet, e.url("a"))
		if c.ok && a.StatusCode != http.StatusOK {
			t.Errorf("%+v: %s %s", c, a.Status, a.body)
		}
		if !c.ok {
			a.problem(t, status.EtagInvalid)
		}
	}
}

// TestAssetStale: while the origin fails, the stale copy is served for MaxStale, and it says so.
func TestAssetStale(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("there"), "ETag", `"v"`, "Cache-Control", "max-age=60"))
	e := startEdge(t, o, nil)
	do(t, http.MethodGet, e.url("a"))
	for _, code := range []int{500, 502, 503, 504, 429} {
		o.serve.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		e.clock.Store(60 + 3000)
		a := do(t, http.MethodGet, e.url("a"))
		if a.body != "there" || a.Header.Get("Age") < "3060" || a.Header.Get("Warning") != `111 - "Revalidation Failed"` {
			t.Errorf("%d: %s, %q, %v", code, a.Status, a.body, a.Header)
		}
		e.clock.Store(60 + 3601)
		a = do(t, http.MethodGet, e.url("a"))
		a.problem(t, status.Upstream)
		if a.Header.Get("Age") != "" || a.Header.Get("Warning") != "" {
			t.Errorf("%v", a.Header)
		}
	}
	for _, code := range []int{404, 410} { // the origin does not fail: it says that the file is no more
		o.serve.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		e.clock.Add(61)
		do(t, http.MethodGet, e.url("a")).problem(t, status.NotFound)
	}
	if n := o.asked.Load(); n == 0 {
		t.Error("not asked")
	}
}

// TestAssetDownLog: an origin that is down is one warning, however many ask for its files; a bad file is one line.
func TestAssetDownLog(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	var log logBuffer
	e := startEdge(t, o, func(_ *fill.Config, d *fill.Deps) {
		d.Params.Origin.BreakerMinCalls, d.Params.Origin.BreakerCooldown = 5, time.Hour
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	for i := range 60 {
		if a := do(t, http.MethodGet, e.url(fmt.Sprint(max(0, i-30)))); a.StatusCode < http.StatusInternalServerError {
			t.Fatalf("%s", a.Status)
		}
	}
	lines := log.String() + e.log.String()
	if n := strings.Count(lines, "level=WARN"); n != 1 || strings.Count(lines, "level=INFO") > 10 {
		t.Errorf("%d warnings:\n%s", n, lines)
	}
}

// TestAssetMissing: that a file is missing is remembered for a short time.
func TestAssetMissing(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	e := startEdge(t, o, nil)
	for range 5 {
		do(t, http.MethodGet, e.url("a")).problem(t, status.NotFound)
	}
	if n := o.asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	e.clock.Store(11)
	do(t, http.MethodGet, e.url("a")).problem(t, status.NotFound)
	if n := o.asked.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestAssetRemoved: what the origin has removed is not served stale, also after a restart.
func TestAssetRemoved(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("there"), "ETag", `"v"`))
	e := startEdge(t, o, nil)
	do(t, http.MethodGet, e.url("a"))
	o.serve.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	e.clock.Store(20)
	do(t, http.MethodGet, e.url("a")).problem(t, status.NotFound)
	o.serve.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	again := startEdge(t, o, func(_ *fill.Config, d *fill.Deps) { d.Records = e.records })
	again.fills.objects.put([]byte("there"))
	again.clock.Store(40)
	do(t, http.MethodGet, again.url("a")).problem(t, status.Upstream)
}

// TestAssetEvicted: a file that the store evicted is filled again, and a record is worth nothing for another origin.
func TestAssetEvicted(t *testing.T) {
	t.Parallel()
	p := letters(5, 2*b3.GroupSize)
	o := newOrigin(t, sending(p, "ETag", `"v"`, "Cache-Control", "max-age=3600"))
	e := startEdge(t, o, nil)
	for i := range int64(3) {
		if a := do(t, http.MethodGet, e.url("a")); a.body != string(p) || o.asked.Load() != i+1 {
			t.Errorf("%s; %d requests, not %d", a.Status, o.asked.Load(), i+1)
		}
		do(t, http.MethodGet, e.url("a"))
		e.fills.evict(b3.Sum(p))
	}
	do(t, http.MethodGet, e.url("a"), "Cache-Control", "only-if-cached").problem(t, status.Precondition)
}

// TestAssetRecords: a new process knows from the database what paths became; a damaged record is none.
func TestAssetRecords(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("there"), "ETag", `"v"`, "Cache-Control", "max-age=3600"))
	e := startEdge(t, o, nil)
	do(t, http.MethodGet, e.url("a"))
	again := startEdge(t, o, func(_ *fill.Config, d *fill.Deps) { d.Records = e.records })
	again.fills.objects.put([]byte("there"))
	if a := do(t, http.MethodGet, again.url("a")); a.body != "there" || o.asked.Load() != 1 {
		t.Errorf("%s; %d requests", a.Status, o.asked.Load())
	}
	e.records.m.Range(func(key, value any) bool {
		p := slices.Clone(value.([]byte))
		p[40] ^= 1
		e.records.m.Store(key, p)
		return true
	})
	damaged := startEdge(t, o, func(_ *fill.Config, d *fill.Deps) { d.Records = e.records })
	damaged.fills.objects.put([]byte("there"))
	if a := do(t, http.MethodGet, damaged.url("a")); a.body != "there" || o.asked.Load() != 2 {
		t.Errorf("%s; %d requests", a.Status, o.asked.Load())
	}
	ram := startEdge(t, o, func(_ *fill.Config, d *fill.Deps) { d.Records = nil })
	do(t, http.MethodGet, ram.url("a"))
	if a := do(t, http.MethodGet, ram.url("a")); a.body != "there" || o.asked.Load() != 3 {
		t.Errorf("%s; %d requests", a.Status, o.asked.Load())
	}
}

// TestAssetQueue: two paths are filled at once; beyond the workers and the queue a request is busy, and a hit is served
// all the same.
func TestAssetQueue(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 8), make(chan struct{}) // bound: the workers of this test
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hit" {
			begun <- struct{}{}
			<-release
		}
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = w.Write([]byte(r.URL.Path))
	})
	e := startEdge(t, o, func(cfg *fill.Config, d *fill.Deps) { cfg.Fills, d.Params.Waiting = 2, 3 })
	do(t, http.MethodGet, e.url("hit"))
	var all sync.WaitGroup
	ask := func(path string) {
		all.Go(func() {
			if a := do(t, http.MethodGet, e.url(path)); a.body != "/"+path {
				t.Errorf("%s: %s %s", path, a.Status, a.body)
			}
		})
	}
	ask("a")
	ask("b")
	<-begun
	<-begun // both run at once
	for i := range 3 {
		ask(fmt.Sprint(i))
	}
	for e.queued() < 3 {
		time.Sleep(time.Millisecond)
	}
	a := do(t, http.MethodGet, e.url("more"))
	a.problem(t, status.Busy)
	if waiting, capacity, refuses := e.service.Refuses(); waiting != 3 || capacity != 3 || !refuses {
		t.Errorf("%d of %d wait, refuses %t", waiting, capacity, refuses)
	}
	ask("a") // joins
	if a := do(t, http.MethodGet, e.url("hit")); a.body != "/hit" {
		t.Errorf("a hit: %s", a.Status)
	}
	close(release)
	all.Wait()
	if _, _, refuses := e.service.Refuses(); refuses {
		t.Error("nothing waits, and fills are refused")
	}
	if n := o.asked.Load(); n != 6 {
		t.Errorf("%d requests", n)
	}
}

// queued returns how many fills wait.
func (e *edge) queued() int { return currentOf(e.bounds, "edge.work") }

// TestAssetDrain: the end of the service ends the fills that run and those that wait, and what they send is cut.
func TestAssetDrain(t *testing.T) {
	t.Parallel()
	p := letters(6, 3*b3.GroupSize)
	next := make(chan struct{})
	defer close(next)
	o := newOrigin(t, steps(p, next))
	e := startEdge(t, o, func(cfg *fill.Config, _ *fill.Deps) { cfg.Fills = 1 })
	resp, err := (&http.Client{Transport: transport}).Get(e.url("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var queued sync.WaitGroup
	queued.Go(func() { do(t, http.MethodGet, e.url("b")).problem(t, status.Draining) })
	for e.queued() < 1 {
		time.Sleep(time.Millisecond)
	}
	e.stop()
	queued.Wait()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer looks whole: %d bytes of %d, %v", len(body), len(p), resp.TransferEncoding)
	}
	do(t, http.MethodGet, e.url("c")).problem(t, status.Draining)
}

// TestAssetDetached: a fill does not end with who asked first.
func TestAssetDetached(t *testing.T) {
	t.Parallel()
	p := letters(7, 2*b3.GroupSize)
	next := make(chan struct{})
	o := newOrigin(t, steps(p, next, "Cache-Control", "max-age=60"))
	e := startEdge(t, o, nil)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	_ = resp.Body.Close()
	next <- struct{}{}
	next <- struct{}{}
	for e.fills.held.Load() > 0 || len(e.audit.all()) < 2 {
		time.Sleep(time.Millisecond)
	}
	if a := do(t, http.MethodGet, e.url("a")); a.body != string(p) || o.asked.Load() != 1 {
		t.Errorf("%s; %d requests", a.Status, o.asked.Load())
	}
}

// TestAssetManifest: the bytes of a source with a manifest are proved before any is sent, also those of a mirror over
// plain http. A mirror that lies is left out.
func TestAssetManifest(t *testing.T) {
	t.Parallel()
	p := letters(8, 2*b3.GroupSize+1)
	lie := slices.Clone(p)
	lie[len(p)-1]++
	liar := newOrigin(t, sending(lie))
	short := newOrigin(t, sending(p[:100]))
	honest := newOrigin(t, sending(p))
	plain := newHTTP(t, sending(p))
	m := &fakeManifests{files: map[string]fill.Stored{"a.txt": {Root: b3.Sum(p), Size: int64(len(p))}}}
	for _, c := range []struct {
		name string
		urls []string
		o    status.Outcome
		bad  int64
	}{
		{"honest", []string{honest.URL}, status.OK, 0},
		{"lies", []string{liar.URL}, status.Corrupt, 1},
		{"short", []string{short.URL}, status.Corrupt, 1},
		{"lies, then honest", []string{liar.URL, honest.URL}, status.OK, 1},
		{"two lies, then plain http", []string{liar.URL, short.URL, plain}, status.OK, 2},
	} {
		before := liar.asked.Load() + short.asked.Load()
		e := startEdge(t, honest, func(cfg *fill.Config, d *fill.Deps) {
			src := cfg.Sources["o"]
			src.URL, src.URLs, src.Manifest, src.RequireETag = "", c.urls, b3.Sum(nil).String(), fill.ETagStrict
			cfg.Sources["o"] = src
			d.Manifests = m
		})
		a := do(t, http.MethodGet, e.url("a.txt"))
		if c.o != status.OK {
			a.problem(t, c.o)
		} else if a.body != string(p) || a.Header.Get("ETag") != `"`+b3.Sum(p).String()+`"` {
			t.Errorf("%s: %s", c.name, a.Status)
		}
		if n := liar.asked.Load() + short.asked.Load() - before; n != c.bad {
			t.Errorf("%s: %d lies, not %d", c.name, n, c.bad)
		}
		asked := honest.asked.Load()
		do(t, http.MethodGet, e.url("b.txt")).problem(t, status.NotFound)
		if honest.asked.Load() != asked {
			t.Errorf("%s: an origin was asked for what the manifest does not have", c.name)
		}
		other := startEdge(t, honest, func(cfg *fill.Config, d *fill.Deps) {
			cfg.Mode = fill.Offline
			src := cfg.Sources["o"]
			src.Manifest = b3.Sum(nil).String()
			cfg.Sources["o"] = src
			d.Manifests = m
		})
		do(t, http.MethodGet, other.url("a.txt")).problem(t, status.NotFound)
		other.fills.objects.put(p) // by whatever way
		if a := do(t, http.MethodGet, other.url("a.txt")); a.body != string(p) || honest.asked.Load() != asked {
			t.Errorf("%s: %s", c.name, a.Status)
		}
	}
}

// TestAssetManifestIndex: a mirror is asked for the file that the manifest names for a directory, and not for a list.
func TestAssetManifestIndex(t *testing.T) {
	t.Parallel()
	page := []byte("<p>index</p>")
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/index.html") {
			_, _ = w.Write(page)
			return
		}
		_, _ = io.WriteString(w, "<p>list</p>")
	})
	file := fill.Stored{Root: b3.Sum(page), Size: int64(len(page))}
	e := startEdge(t, o, func(cfg *fill.Config, d *fill.Deps) {
		src := cfg.Sources["o"]
		src.Manifest, src.RequireETag = b3.Sum(nil).String(), fill.ETagStrict
		cfg.Sources["o"] = src
		d.Manifests = &fakeManifests{files: map[string]fill.Stored{"index.html": file, "dir/index.html": file}}
	})
	for _, path := range []string{"", "dir/"} {
		if a := do(t, http.MethodGet, e.url(path)); a.body != string(page) {
			t.Errorf("%q: %s %s", path, a.Status, a.body)
		}
		e.fills.evict(file.Root)
	}
}

// TestAssetAnnounced: fills of a source that says so are announced, and an announcement that panics ends no worker.
func TestAssetAnnounced(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("there"), "ETag", `"v"`))
	var announced atomic.Int64
	e := startEdge(t, o, func(cfg *fill.Config, d *fill.Deps) {
		src := cfg.Sources["o"]
		src.Announce = true
		cfg.Fills, cfg.Sources["o"] = 1, src
		d.Announce = func(context.Context, b3.Root) { announced.Add(1); panic("announce") }
	})
	for i := range 3 {
		if a := do(t, http.MethodGet, e.url(fmt.Sprint(i))); a.body != "there" {
			t.Errorf("%s", a.Status)
		}
	}
	e.stop()
	if n := announced.Load(); n != 3 {
		t.Errorf("%d announcements", n)
	}
}

// TestAssetOffline: nothing is asked; what is stored is served whatever its age.
func TestAssetOffline(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("there"), "ETag", `"v"`))
	e := startEdge(t, o, nil)
	do(t, http.MethodGet, e.url("a"))
	off := startEdge(t, o, func(cfg *fill.Config, d *fill.Deps) {
		cfg.Mode = fill.Offline
		d.Records = e.records
		d.Resolver = noDNS(t)
	})
	do(t, http.MethodGet, off.url("b")).problem(t, status.NotFound)
	do(t, http.MethodGet, off.url("a")).problem(t, status.NotFound) // not in the store of this node
	off.fills.objects.put([]byte("there"))
	off.clock.Store(1e6)
	a := do(t, http.MethodGet, off.url("a"))
	if a.body != "there" || a.Header.Get("Age") == "" || a.Header.Get("Warning") != `112 - "Disconnected Operation"` {
		t.Errorf("%s %s, %v", a.Status, a.body, a.Header)
	}
	if n := o.asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestAssetPaths: names and paths that are no names of files are refused before anybody is asked.
func TestAssetPaths(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, sending([]byte("x")))
	e := startEdge(t, o, nil)
	base := e.Addrs().Gateway + "/edge/assets/"
	for path, want := range map[string]status.Outcome{
		"": status.NotFound, "x": status.NotFound, "x/a": status.NotFound, "O/a": status.NotFound, "%6f%2fa": status.NotFound,
		"o%2Fa": status.NotFound, "..%2fo/a": status.NotFound, "https:%2f%2fexample.com/a": status.NotFound,
		"o%00/a": status.NotFound, "%2e%2e/o/a": status.NotFound, "./o/a": status.NotFound,
		"o/..%2fa": status.BadAddress, "o/%2e%2e/a": status.BadAddress, "o/a%2fb": status.BadAddress,
		"o/a%5cb": status.BadAddress, "o/a%00": status.BadAddress, "o/a//b": status.BadAddress,
		"o/%0d%0aX": status.BadAddress,
		"o/%ff":     status.BadAddress, "o/" + strings.Repeat("a", 1025): status.BadAddress, "o//a": status.BadAddress,
		"o/./a": status.BadAddress, "o/%": status.BadRequest,
	} {
		if path == "o/%" {
			continue // net/http refuses it
		}
		a := do(t, http.MethodGet, base+path)
		if a.StatusCode != want.Code() || a.Header.Get("X-Reason") != want.String() {
			t.Errorf("%q: %s %s", path, a.Status, a.body)
		}
	}
	if n := o.asked.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	if a := do(t, http.MethodGet, base+"%6f/%61"); a.body != "x" {
		t.Errorf("%s", a.Status)
	}
	for _, path := range []string{"o", "%6f"} { // links of the page at the base lead to files of the source
		a := do(t, http.MethodGet, base+path)
		if a.StatusCode != http.StatusMovedPermanently || a.Header.Get("Location") != "/edge/assets/"+path+"/" {
			t.Errorf("%s: %s to %q", path, a.Status, a.Header.Get("Location"))
		}
	}
	do(t, http.MethodGet, base+"o/a", "Service-Worker", "script").problem(t, status.NotAllowed)
	do(t, http.MethodGet, base+"o/new", "Service-Worker", "script").problem(t, status.NotAllowed)
}

// TestAssetTree: a source may be a directory; it has files and no listings.
func TestAssetTree(t *testing.T) {
	t.Parallel()
	objects := &fakeObjects{}
	root := objects.tree(t, map[string]string{
		"a.txt": "a", "dir/index.html": "<p>index</p>", "none/b": "b", "link": "-> dir/", "été": "summer",
	})
	names := &fakeNames{named: map[string]content.Named{"blog.alice": {Root: root, TTL: time.Minute}},
		asked: map[string]int{}}
	e := newEdge(t, map[string]fill.Source{
		"tree": {Key: root.String(), RequireETag: fill.ETagStrict},
		"name": {Key: "blog.alice", RequireETag: fill.ETagStrict},
	}, nil)
	n := startWith(t, hooks{deps: func(d *Deps) {
		f := d.Objects.(*fakeObjects)
		f.m = objects.m
		d.Names, d.Edge.Fills = names, e.service
	}})
	for _, c := range []struct {
		path, body, location string
		code                 int
	}{
		{"a.txt", "a", "", 200}, {"dir/", "<p>index</p>", "", 200}, {"dir", "", "dir/", 301}, {"none/", "", "", 404},
		{"", "", "", 404}, {"link", "", "dir/", 301}, {"b.txt", "", "", 404}, {"%C3%A9t%C3%A9", "summer", "", 200},
		{"a.txt?view=preview", "a", "", 200}, {"dir/?format=json", "", "", 400}, {"none/?format=json", "", "", 404},
		{"../a.txt", "", "", 400}, {"%2e%2e/x", "", "", 400},
	} {
		for source, caching := range map[string]string{"tree": "public, max-age=86400", "name": "public, max-age=60"} {
			base := "/edge/assets/" + source + "/"
			a := do(t, http.MethodGet, n.Addrs().Gateway+base+c.path)
			if a.StatusCode != c.code || c.code == 200 && (a.body != c.body || a.Header.Get("Cache-Control") != caching) {
				t.Errorf("%s%s: %s %s %v", base, c.path, a.Status, a.body, a.Header)
			}
			if c.location != "" && a.Header.Get("Location") != base+c.location {
				t.Errorf("%s%s leads to %s", base, c.path, a.Header.Get("Location"))
			}
		}
	}
	if a := do(t, http.MethodGet, n.Addrs().Gateway+"/edge/assets/tree/a.txt?format=bao"); a.StatusCode != http.StatusOK ||
		a.Header.Get("Content-Type") != "application/vnd.allium.bao" && len(a.body) != 9 {
		t.Errorf("%s %q", a.Status, a.body)
	}
}
