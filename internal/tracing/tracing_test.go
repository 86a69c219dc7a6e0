package tracing

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/limits"
	"allium/protocols/status"
)

// collector remembers the spans that it is sent, by name.
type collector struct {
	mu    sync.Mutex
	spans map[string]span
	asked int
}

func (c *collector) handler(answer string, code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var m message
		err := json.NewDecoder(r.Body).Decode(&m)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		if err == nil && c.spans == nil {
			c.spans = map[string]span{}
		}
		for _, s := range m.ResourceSpans[0].ScopeSpans[0].Spans {
			c.spans[s.Name] = s
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	}
}

// run sends what f makes of a tracer to a collector that answers so, and returns it and the tracer.
func run(t *testing.T, ratio float64, answer string, code int, f func(t *Tracer)) (*collector, *Tracer) {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(c.handler(answer, code))
	defer server.Close()
	tracer := New(Config{Endpoint: server.URL, Ratio: ratio, Node: "me", Version: "v"}, nil, nil)
	f(tracer)
	ctx, stop := context.WithCancel(t.Context())
	stop() // what waits is sent at the end
	if err := tracer.Run(ctx, func() {}); err != nil {
		t.Error(err)
	}
	return c, tracer
}

func (t *Tracer) count(f fate) int {
	return int(testutil.ToFloat64(t.fates.WithLabelValues(string(f))))
}

// TestOneTrace: a request, its parts, and what a peer does for it are one trace.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	c, tracer := run(t, 1, "{}", 200, func(tr *Tracer) {
		ctx, root := tr.Begin(t.Context(), "fetch")
		ctx, get := Child(ctx, "get")
		get.Number("allium.objects", 3)
		_, served := tr.Accept(t.Context(), "serve get", Traceparent(ctx))
		served.End(status.Errorf(status.NotFound, "secret"))
		get.End(nil)
		root.Text("allium.lookup_id", "0123")
		root.End(nil)
		root.End(errors.New("again"))
	})
	fetch, get, served := c.spans["fetch"], c.spans["get"], c.spans["serve get"]
	if fetch.TraceID == "" || get.TraceID != fetch.TraceID || served.TraceID != fetch.TraceID {
		t.Errorf("several traces: %+v", c.spans)
	}
	if fetch.Parent != "" || get.Parent != fetch.SpanID || served.Parent != get.SpanID {
		t.Errorf("the spans are not below each other: %+v", c.spans)
	}
	if served.Kind != kindServer || served.Status.Code != statusError || fetch.Status.Code != 0 {
		t.Errorf("%+v", c.spans)
	}
	if all, _ := json.Marshal(c.spans); strings.Contains(string(all), "secret") {
		t.Error("the text of an error was sent")
	}
	if tracer.count(sent) != 3 || tracer.count(failed)+tracer.count(rejected)+tracer.count(queueFull) != 0 {
		t.Error("wrong counts")
	}
}

// TestSampling: what the ratio does not choose is not sent, and peers decide for what they ask.
func TestSampling(t *testing.T) {
	t.Parallel()
	c, _ := run(t, 0, "", 200, func(tr *Tracer) {
		if ctx, s := tr.Begin(t.Context(), "fetch"); s != nil || Traceparent(ctx) != "" {
			t.Error("a trace with ratio 0")
		}
		id := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
		for text, want := range map[string]bool{
			id + "1": true, id + "0": false, "": false, "00": false, "01" + id[2:] + "1": false,
			strings.ToUpper(id) + "x": false, "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01": false,
			"00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01": false, id + "11": false,
		} {
			_, s := tr.Accept(t.Context(), "serve", text)
			if (s != nil) != want {
				t.Errorf("%q is accepted: %v", text, s != nil)
			}
			s.End(nil)
		}
	})
	if c.asked != 1 || c.spans["serve"].TraceID != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("%d batches, %+v", c.asked, c.spans)
	}
}

// TestCollectors: of a collector that refuses, lies or sends elsewhere, the drops are counted.
func TestCollectors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		answer string
		code   int
		want   fate
	}{
		{`{"partialSuccess":{"rejectedSpans":"5"}}`, 200, rejected},
		{`{"partialSuccess":{"rejectedSpans":99999999999}}`, 200, rejected},
		{`{"partialSuccess":{"rejectedSpans":-3}}`, 200, sent},
		{`{"partialSuccess":{"rejectedSpans":1e999}}`, 200, sent},
		{strings.Repeat("[", 1<<20), 200, sent},
		{"", 204, sent}, {"", 503, failed}, {"", 302, failed}, {"", 400, failed},
	} {
		_, tracer := run(t, 1, tc.answer, tc.code, func(tr *Tracer) {
			for range 5 {
				tr.Under(nil, "fetch").End(nil)
			}
		})
		if n := tracer.count(tc.want); n != 5 {
			t.Errorf("%d %.40s: %d of 5 are %s", tc.code, tc.answer, n, tc.want)
		}
	}
}

// TestQueueFull: without a collector nothing waits. What peers ask for takes half of the queue.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	tr := New(Config{Endpoint: "http://127.0.0.1:1", Ratio: 1}, nil, nil)
	own := tr.Under(nil, "fetch")
	for range 2 * maxQueued {
		_, s := tr.Accept(t.Context(), "serve", own.Traceparent())
		s.End(nil)
	}
	if now, _ := tr.Queued(); now != maxQueued/2 {
		t.Errorf("peers fill %d places", now)
	}
	for range 2 * maxQueued {
		tr.Under(own, "get").End(nil)
	}
	if now, most := tr.Queued(); now != most {
		t.Errorf("%d of %d places are full", now, most)
	}
	if n := tr.count(queueFull); n != 3*maxQueued {
		t.Errorf("%d spans were dropped", n)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if limits.Sleep(ctx, mostPause) == nil {
		t.Error("the wait after a failure does not end with the node")
	}
}

// TestOffCostsNothing: without a tracer, and for a request that was not chosen, nothing is allocated.
func TestOffCostsNothing(t *testing.T) {
	ctx := t.Context()
	unchosen := New(Config{Endpoint: "http://127.0.0.1:1"}, nil, nil)
	for name, tr := range map[string]*Tracer{"off": nil, "not chosen": unchosen} {
		n := testing.AllocsPerRun(1000, func() {
			ctx, root := tr.Begin(ctx, "fetch")
			ctx, get := Child(ctx, "get")
			get.Number("allium.objects", 1)
			ctx, served := tr.Accept(ctx, "serve get", Traceparent(ctx))
			With(ctx, served)
			served.End(nil)
			get.End(nil)
			root.End(nil)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if New(Config{}, nil, nil) != nil {
		t.Error("a tracer without an endpoint")
	}
}

// TestCollectorHangs: nothing waits for a collector that does not answer, the tracer ends all the same, and each span
// is counted.
func TestCollectorHangs(t *testing.T) {
	t.Parallel()
	asked, over := make(chan struct{}, 8), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer server.Close()
	defer close(over)
	tracer := New(Config{Endpoint: server.URL, Ratio: 1}, nil, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tracer.Run(ctx, func() {}) }()
	const spans = 2*maxQueued + 100
	for i := range spans {
		_, s := tracer.Begin(t.Context(), "fetch")
		s.End(nil)
		if i == maxBatch {
			<-asked
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := tracer.count(failed) + tracer.count(queueFull); n != spans || tracer.count(queueFull) == 0 {
		t.Errorf("%d of %d spans are counted, %d as too many", n, spans, tracer.count(queueFull))
	}
}
