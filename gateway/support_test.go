package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/server"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeObjects is a node's content in memory.
type fakeObjects struct {
	mu    sync.Mutex
	m     map[b3.Root]*fakeObject
	opens []content.OpenOptions
}

// fakeObject is one object and how it misbehaves.
type fakeObject struct {
	data   []byte
	remote bool
	failAt int64         // fail with err when that many bytes were written; 0: never
	err    error         // nil: Copy waits for its context instead
	gate   chan struct{} // Copy waits for it before its first byte
	panics bool
}

// opened is how objects were opened since the last call.
func (f *fakeObjects) opened() []content.OpenOptions {
	f.mu.Lock()
	defer f.mu.Unlock()
	opens := f.opens
	f.opens = nil
	return opens
}

func (f *fakeObjects) put(data []byte) b3.Root { return f.add(&fakeObject{data: data}) }

func (f *fakeObjects) add(o *fakeObject) b3.Root {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil {
		f.m = map[b3.Root]*fakeObject{}
	}
	root := b3.Sum(o.data)
	f.m[root] = o
	return root
}

func (f *fakeObjects) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens = append(f.opens, o)
	obj, ok := f.m[root]
	if !ok || o.LocalOnly && obj.remote {
		return nil, status.Errorf(status.NotFound, "no provider of %s found; try again later", root)
	}
	return &fakeContent{obj}, nil
}

// Memory implements Objects: nothing of a fake lies in RAM.
func (f *fakeObjects) Memory(b3.Root) []byte { return nil }

type fakeContent struct{ *fakeObject }

func (c *fakeContent) Size() int64  { return int64(len(c.data)) }
func (c *fakeContent) Close() error { return nil }

func (c *fakeContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	if c.panics {
		panic("boom")
	}
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fail := int64(len(c.data)) + 1
	if c.failAt > 0 || c.err != nil {
		fail = c.failAt
	}
	for at := start; at < end; {
		if at >= fail {
			if c.err != nil {
				return c.err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		next := min(end, (at/b3.GroupSize+1)*b3.GroupSize, max(fail, at+1))
		if _, err := w.Write(c.data[at:next]); err != nil {
			return err
		}
		at = next
	}
	return nil
}

// Encode fails like Copy, at a group.
func (c *fakeContent) Encode(ctx context.Context, w io.Writer, start, end int64) error {
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	if _, err := h.Write(c.data); err != nil {
		return err
	}
	root, size, err := h.Sum()
	if err != nil {
		return err
	}
	src := &fakeSource{Source: b3.FileSource(bytes.NewReader(c.data), bytes.NewReader(outboard.Bytes()), size), c: c, ctx: ctx}
	e, err := bao.NewEncoder(b3.NewReader(root, size, src), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	_, err = e.WriteTo(w)
	return err
}

type fakeSource struct {
	b3.Source
	c   *fakeContent
	ctx context.Context
}

func (s *fakeSource) ReadGroup(g int64, p []byte) (int, error) {
	if err := s.c.Copy(s.ctx, io.Discard, g*b3.GroupSize, g*b3.GroupSize+int64(len(p))); err != nil {
		return 0, err
	}
	return s.Source.ReadGroup(g, p)
}

// put makes a directory out of paths to contents; a content beginning with
// "-> " is a link.
func (f *fakeObjects) tree(t testing.TB, files map[string]string) b3.Root {
	t.Helper()
	root, _ := f.dir(t, files)
	return root
}

func (f *fakeObjects) dir(t testing.TB, files map[string]string) (b3.Root, int64) {
	t.Helper()
	ctx := t.Context()
	below := map[string]map[string]string{}
	var names []string
	for p := range files {
		top, rest, nested := strings.Cut(p, "/")
		if below[top] == nil {
			below[top] = map[string]string{}
			names = append(names, top)
		}
		if nested && rest != "" {
			below[top][rest] = files[p]
		}
	}
	slices.Sort(names)
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return f.put(bytes.Clone(p)), nil })
	for _, name := range names {
		e := manifest.Entry{Name: name}
		content, isFile := files[name]
		switch target, isLink := strings.CutPrefix(content, "-> "); {
		case isLink:
			e.Kind, e.Target = manifest.Link, target
		case isFile:
			e.Root, e.Size = f.put([]byte(content)), int64(len(content))
			e.Executable = path.Ext(name) == ".sh"
		default:
			e.Kind = manifest.Directory
			e.Root, e.Size = f.dir(t, below[name])
		}
		if err := b.Add(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	root, size, err := b.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return root, size
}

// patiently gives requests all the time that a busy machine may take to end.
func patiently(p *server.Params) { p.Drain, p.Abort = patience, patience }

// testNode is a Gateway that runs for the length of a test.
type testNode struct {
	*Gateway
	objects *fakeObjects
	node    *fakeNode
	sent    *fakeUploads
	log     *logBuffer
	reg     *prometheus.Registry
	limits  *limits.Registry
	socket  string
	ready   hook[api.Readiness]
	stop    func() error // ends Run and returns what it did
}

type option func(*Config, *server.AdminConfig)

// start runs a Gateway on loopback and a socket.
func start(t testing.TB, opts ...option) *testNode {
	t.Helper()
	return startWith(t, hooks{}, opts...)
}

// hooks change what a Gateway is made of.
type hooks struct {
	deps   func(*Deps)
	params func(*server.Params)
}

// startWith is start with hooks.
func startWith(t testing.TB, h hooks, opts ...option) *testNode {
	t.Helper()
	cfg, admin := DefaultConfig(), server.DefaultAdminConfig()
	cfg.Listen, admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	// What a test does not set must not end its requests on a busy machine.
	cfg.HeaderTimeout, cfg.Content.FirstByteTimeout, cfg.WriteTimeout, cfg.Bodies.ReadTimeout = time.Minute, time.Minute, time.Minute, time.Minute
	for _, o := range opts {
		o(&cfg, &admin)
	}
	n := &testNode{objects: &fakeObjects{}, node: &fakeNode{}, log: &logBuffer{}, reg: prometheus.NewRegistry()}
	n.limits = limits.NewRegistry(n.reg)
	n.sent = &fakeUploads{objects: n.objects}
	n.ready.set(api.Readiness{Ready: true, Reads: true, Writes: true, Network: true, Gates: []api.Gate{{Name: "store", Ready: true, Have: 1, Need: 1}}})
	socket, err := api.SocketPath(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n.socket = socket
	deps := Deps{
		Objects: n.objects, Node: n.node, Uploads: n.sent, Capabilities: fakeCapabilities{}, Ready: n.ready.Get,
		Version: api.Version{Version: "v0", Commit: "c0", Go: "go1"}, Socket: socket,
		Log:     slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: n.reg, Gatherer: n.reg, Limits: n.limits,
	}
	if h.deps != nil {
		h.deps(&deps)
	}
	params := server.DefaultParams()
	contract := watchContract(t, &params)
	if h.params != nil {
		h.params(&params)
	}
	if n.Gateway, err = newGateway(cfg, admin, deps, params); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan struct{}), make(chan struct{})
	var runErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		runErr = n.Run(ctx, func() { close(ready) })
	})
	select {
	case <-ready:
	case <-done:
		cancel()
		t.Fatal(runErr)
	}
	n.stop = func() error {
		cancel()
		wg.Wait()
		return runErr
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		contract.report(t)
	})
	return n
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// transport has no keep-alive, so a test leaves no goroutine behind.
var transport = &http.Transport{DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: time.Minute}

// answer is a response that was read whole.
type answer struct {
	*http.Response
	body string
	err  error // of reading the body
}

// do sends a request; headers come as name, value pairs.
func do(t testing.TB, method, url string, headers ...string) answer {
	t.Helper()
	return doBody(t, method, url, nil, headers...)
}

// doBody is do with a request body.
func doBody(t testing.TB, method, url string, send io.Reader, headers ...string) answer {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, url, send)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp, string(body), err}
}

// problem checks that an answer is the problem of an outcome, with its headers.
func (a answer) problem(t testing.TB, want status.Outcome) api.Problem {
	t.Helper()
	var p api.Problem
	if a.err != nil || a.StatusCode != want.Code() {
		t.Fatalf("got %s (%v) %s, want %s", a.Status, a.err, a.body, want)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/problem+json", "X-Reason": want.String(), "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "ETag": "", "Last-Modified": "",
	} {
		if got := a.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if a.Header.Get("X-Corr-ID") == "" {
		t.Error("no X-Corr-ID")
	}
	if retry := want.Retry(); (a.Header.Get("Retry-After") != "") != (retry == status.RetryAfter || retry == status.RetryYes) {
		t.Errorf("Retry-After is %q for %s", a.Header.Get("Retry-After"), want)
	}
	if a.Request.Method == http.MethodHead {
		return p
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	if p.Reason != want.String() || p.Status != want.Code() || p.Detail == "" || p.Type != "urn:allium:problem:"+want.String() {
		t.Errorf("problem %+v", p)
	}
	return p
}

// rejected is how often requests or connections were refused for a reason.
func (n *testNode) rejected(reason string) int {
	return int(n.counter("rejected_total", reason))
}

// counter is the value of a counter, 0 before it was counted with those labels.
func (n *testNode) counter(name string, values ...string) float64 {
	v, _ := metric(n.reg, name, values...)
	return v
}

// current is how many places of a limit are taken, -1 where it is not listed.
func (n *testNode) current(limit string) int { return currentOf(n.limits, limit) }

func currentOf(r *limits.Registry, limit string) int {
	for _, l := range r.Snapshot() {
		if l.Name == limit {
			return int(l.Current)
		}
	}
	return -1
}

// counterOf returns the value of a counter or gauge whose labels have these values.
func counterOf(t testing.TB, reg *prometheus.Registry, name string, values ...string) float64 {
	t.Helper()
	v, ok := metric(reg, name, values...)
	if !ok {
		t.Fatalf("there is no %s of %q", name, values)
	}
	return v
}

// metric is counterOf where there may be none.
func metric(reg *prometheus.Registry, name string, values ...string) (float64, bool) {
	families, _ := reg.Gather()
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if slices.EqualFunc(m.GetLabel(), values, func(l *dto.LabelPair, v string) bool { return l.GetValue() == v }) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

// The policies of content, and of PDF files in a directory.
const (
	contentPolicy  = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; media-src 'self'; font-src 'self'; style-src 'self' 'unsafe-inline'"
	documentPolicy = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
)

// baoTag is the validator of an encoding, of the whole or of "=first-last".
func baoTag(root b3.Root, part string) string { return `"` + root.String() + ";bao" + part + `"` }
