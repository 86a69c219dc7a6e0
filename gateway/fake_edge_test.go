package gateway

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/gateway/fill"
	"allium/gateway/policy/audit"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fakeFills stores what origins send among the objects of a test, as the store does: group by group.
type fakeFills struct {
	objects *fakeObjects
	full    atomic.Int64 // no_space after so many bytes; 0: never
	denied  hook[b3.Root]
	held    atomic.Int64
}

func (f *fakeFills) Put(_ context.Context, r io.Reader, o fill.PutOptions) (fill.Stored, func(), error) {
	var file growing
	p := make([]byte, b3.GroupSize)
	for {
		n, err := io.ReadFull(r, p)
		file.append(p[:n])
		if full := f.full.Load(); full > 0 && file.size() > full {
			err = status.Errorf(status.NoSpace, "the store is full")
		}
		if o.Watch != nil && n > 0 && (file.size() > b3.GroupSize || n == b3.GroupSize && err == nil) {
			o.Watch.Arrived(&file, file.size())
			defer o.Watch.Closing()
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // one that wraps it is no end
			break
		}
		if err != nil {
			return fill.Stored{}, nil, err
		}
	}
	root := b3.Sum(file.p)
	switch {
	case !o.Expect.IsZero() && root != o.Expect:
		return fill.Stored{}, nil, status.Errorf(status.BadDigest, "other bytes")
	case root == f.denied.Get():
		return fill.Stored{}, nil, status.Errorf(status.Denied, "denied")
	}
	f.objects.put(file.p)
	release, _ := f.Hold(context.Background(), root)
	return fill.Stored{Root: root, Size: file.size()}, release, nil
}

func (f *fakeFills) Hold(_ context.Context, root b3.Root) (func(), bool) {
	f.objects.mu.Lock()
	defer f.objects.mu.Unlock()
	if f.objects.m[root] == nil {
		return nil, false
	}
	f.held.Add(1)
	return sync.OnceFunc(func() { f.held.Add(-1) }), true
}

// evict removes an object.
func (f *fakeFills) evict(root b3.Root) {
	f.objects.mu.Lock()
	defer f.objects.mu.Unlock()
	delete(f.objects.m, root)
}

// growing is a file that is read while it is written.
type growing struct {
	mu sync.Mutex
	p  []byte
}

func (g *growing) append(p []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.p = append(g.p, p...)
}

func (g *growing) size() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int64(len(g.p))
}

func (g *growing) ReadAt(p []byte, at int64) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return bytes.NewReader(g.p).ReadAt(p, at)
}

// fakeRecords is a database of records in RAM.
type fakeRecords struct{ m sync.Map }

func (f *fakeRecords) Get(_ context.Context, key string) ([]byte, error) {
	v, _ := f.m.Load(key)
	p, _ := v.([]byte)
	return p, nil
}

func (f *fakeRecords) Put(_ context.Context, key string, value []byte) error {
	f.m.Store(key, value)
	return nil
}

// fakeManifests are manifests by the path alone.
type fakeManifests struct {
	files map[string]fill.Stored
	asked atomic.Int64
}

func (f *fakeManifests) Lookup(_ context.Context, _, path string, _ bool) (fill.Stored, time.Duration, error) {
	f.asked.Add(1)
	file, ok := f.files[path]
	if !ok {
		return file, 0, status.Errorf(status.NotFound, "the manifest has no %q", path)
	}
	return file, time.Minute, nil
}

// edge is live fill with its sources, an origin and a node in front.
type edge struct {
	*testNode
	service *fill.Service
	fills   *fakeFills
	records *fakeRecords
	audit   *fakeFillAudit
	clock   atomic.Int64 // seconds that the clock of records is ahead
	stop    func()       // ends the service and waits for it
	bounds  *limits.Registry
}

// fakeFillAudit remembers events.
type fakeFillAudit struct {
	mu     sync.Mutex
	events []audit.Event
	err    error
}

func (f *fakeFillAudit) Mutation(_ context.Context, e audit.Event) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	return uint64(len(f.events)), f.err
}

func (f *fakeFillAudit) Outcome(_ context.Context, e audit.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

func (f *fakeFillAudit) Refused(audit.Event) {}

func (f *fakeFillAudit) all() []audit.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]audit.Event(nil), f.events...)
}

// newEdge runs live fill with sources. edit, which may be nil, changes what it is made of.
func newEdge(t testing.TB, sources map[string]fill.Source, edit func(*fill.Config, *fill.Deps)) *edge {
	t.Helper()
	e := &edge{fills: &fakeFills{objects: &fakeObjects{}}, records: &fakeRecords{}, audit: &fakeFillAudit{},
		bounds: limits.NewRegistry(nil)}
	cfg := fill.DefaultConfig()
	cfg.Sources = sources
	p := fill.DefaultParams()
	p.Origin.FirstByte, p.Origin.Idle, p.Origin.Backoff, p.Origin.MaxBackoff = time.Minute, time.Minute,
		time.Millisecond, time.Millisecond
	p.Origin.BreakerMinCalls = 1000
	p.Queue, p.Stale = time.Minute, time.Minute
	deps := fill.Deps{
		Env: env.Env{Limits: e.bounds, Now: func() time.Time {
			return time.Now().Add(time.Duration(e.clock.Load()) * time.Second)
		}},
		Store: e.fills, Records: e.records, Audit: e.audit, UserAgent: "allium/test", Params: p,
		Manifests: &fakeManifests{},
	}
	if edit != nil {
		edit(&cfg, &deps)
	}
	var err error
	if e.service, err = fill.New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.service.Run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	<-ready
	e.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(e.stop)
	return e
}

// startEdge is newEdge with a node in front. An origin's source is private, trusts it, and takes any answer.
func startEdge(t testing.TB, o *origin, edit func(*fill.Config, *fill.Deps), opts ...option) *edge {
	t.Helper()
	sources := map[string]fill.Source{}
	if o != nil {
		sources["o"] = o.source(t)
	}
	e := newEdge(t, sources, edit)
	e.testNode = startWith(t, hooks{deps: func(d *Deps) {
		d.Edge.Fills, e.fills.objects = e.service, d.Objects.(*fakeObjects)
		d.Audit = e.audit
	}}, opts...)
	return e
}

// url returns the URL of a path of the origin's source.
func (e *edge) url(path string) string { return e.Addrs().Gateway + "/edge/assets/o/" + path }

// origin is an https server that counts its requests.
type origin struct {
	*httptest.Server
	asked atomic.Int64
	serve hook[http.HandlerFunc]
}

func newOrigin(t testing.TB, serve http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.serve.set(serve)
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		o.serve.Get()(w, r)
	}))
	o.StartTLS()
	t.Cleanup(o.Close)
	return o
}

// source returns the source of an origin.
func (o *origin) source(t testing.TB) fill.Source {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	p := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw})
	if err := os.WriteFile(file, p, 0o600); err != nil {
		t.Fatal(err)
	}
	return fill.Source{URL: o.URL, Private: true, CAFile: file, RequireETag: fill.ETagAny}
}

// sending returns a handler that sends bytes with an ETag.
func sending(p []byte, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p))
	}
}

// steps sends bytes and waits for a word before each further group.
func steps(p []byte, next <-chan struct{}, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		for at := 0; at < len(p); at += b3.GroupSize {
			if _, err := w.Write(p[at:min(len(p), at+b3.GroupSize)]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case _, ok := <-next:
				if !ok {
					panic(http.ErrAbortHandler)
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

// newHTTP runs an origin over http and returns its URL.
func newHTTP(t testing.TB, serve http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return s.URL
}

// noDNS is a resolver that fails the test when it is asked.
func noDNS(t testing.TB) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("the DNS was asked")
		return nil, errors.New("no DNS")
	}}
}
