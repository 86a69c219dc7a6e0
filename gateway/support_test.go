package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patiently gives requests all the time that a busy machine may take to end.
func patiently(p *server.Params) { p.Drain, p.Abort = patience, patience }

// testNode is a Gateway that runs for the length of a test.
type testNode struct {
	*Gateway
	objects *fakeObjects
	index   *fakeIndex
	node    *fakeNode
	sent    *fakeUploads
	log     *logBuffer
	reg     *prometheus.Registry
	limits  *limits.Registry
	events  *limits.Events[*api.Event]
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
	cfg.HeaderTimeout, cfg.Content.FirstByteTimeout, cfg.Bodies.ReadTimeout = time.Minute, time.Minute, time.Minute
	cfg.WriteTimeout, cfg.StallTimeout = time.Minute, time.Minute
	for _, o := range opts {
		o(&cfg, &admin)
	}
	n := &testNode{
		objects: &fakeObjects{}, index: &fakeIndex{}, node: &fakeNode{}, log: &logBuffer{},
		reg: prometheus.NewRegistry(),
	}
	n.limits = limits.NewRegistry(n.reg)
	n.events = newEvents(n.limits)
	n.sent = &fakeUploads{objects: n.objects}
	n.ready.set(api.Readiness{
		Ready: true, Reads: true, Writes: true, Network: true,
		Gates: []api.Gate{{Name: "store", Ready: true, Have: 1, Need: 1}},
	})
	socket, err := api.SocketPath(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n.socket = socket
	log := slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	deps := Deps{
		Env:     env.Env{Log: log, Metrics: n.reg, Limits: n.limits},
		Objects: n.objects, Index: n.index, Node: n.node, Uploads: n.sent,
		Capabilities: fakeCapabilities{}, Ready: n.ready.Get,
		Version: testVersion, Socket: socket,
		Gatherer: n.reg, Events: n.events,
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
	contract.hosts = n.hosts
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
	if retry := want.Retry(); (a.Header.Get("Retry-After") != "") != (retry == status.RetryAfter ||
		retry == status.RetryYes) {
		t.Errorf("Retry-After is %q for %s", a.Header.Get("Retry-After"), want)
	}
	if a.Request.Method == http.MethodHead {
		return p
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	if p.Reason != want.String() || p.Status != want.Code() || p.Detail == "" ||
		p.Type != "urn:allium:problem:"+want.String() {
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
			if slices.EqualFunc(m.GetLabel(), values,
				func(l *dto.LabelPair, v string) bool { return l.GetValue() == v }) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

// The policies of content, and of PDF files in a directory.
const (
	contentPolicy = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; media-src 'self'; font-src " +
		"'self'; style-src 'self' 'unsafe-inline'"
	documentPolicy = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
)

// baoTag is the validator of an encoding, of the whole or of "=first-last".
func baoTag(root b3.Root, part string) string { return `"` + root.String() + ";bao" + part + `"` }

// testVersion is the version of the nodes of the tests.
var testVersion = api.Version{Version: "v0", Commit: "c0", Go: "go1", OS: "linux", Arch: "amd64"}
