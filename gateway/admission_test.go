package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/server"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// newTestGateway is a Gateway that listens nowhere.
func newTestGateway(t testing.TB, objects content.Objects, opts ...option) *testNode {
	t.Helper()
	cfg, admin := DefaultConfig(), server.DefaultAdminConfig()
	for _, o := range opts {
		o(&cfg, &admin)
	}
	n := &testNode{node: &fakeNode{}, index: &fakeIndex{}, reg: prometheus.NewRegistry(),
		limits: limits.NewRegistry(nil)}
	var err error
	n.Gateway, err = New(cfg, admin, Deps{
		Env:     env.Env{Metrics: n.reg, Limits: n.limits},
		Objects: objects, Index: n.index, Node: n.node, Ready: nothingReady, Capabilities: fakeCapabilities{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serve answers one request of a client without a socket.
func serve(s http.Handler, method, path, from string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, body)
	r.RemoteAddr = from
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// TestRetryAfter: the wait that a client is told is the one after which it gets
// in, in milliseconds and in whole seconds rounded up.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := &fakeObjects{}
		root := objects.add(&fakeObject{data: []byte("x"), remote: true})
		s := newTestGateway(t, objects, func(c *Config, _ *server.AdminConfig) {
			c.Rate, c.Burst, c.RateWait = 1, 1, 0
		}).Handler(server.Public)
		get := func() *httptest.ResponseRecorder {
			return serve(s, http.MethodGet, "/o/"+root.String(), "192.0.2.1:1", nil)
		}
		if rec := get(); rec.Code != http.StatusOK {
			t.Fatal(rec.Code)
		}
		time.Sleep(300 * time.Millisecond)
		rec := get()
		var p api.Problem
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if p.RetryAfterMS != 700 || rec.Header().Get("Retry-After") != "1" || rec.Code != http.StatusTooManyRequests {
			t.Errorf("%d %+v, Retry-After %q", rec.Code, p, rec.Header().Get("Retry-After"))
		}
		time.Sleep(time.Duration(p.RetryAfterMS) * time.Millisecond)
		if rec := get(); rec.Code != http.StatusOK {
			t.Errorf("after the wait: %d", rec.Code)
		}
	})
}

// TestRateWaits: a request above the rate waits for its turn, without a place among those in flight, until its client
// goes away, its own time is over or the node drains.
func TestRateWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := &fakeObjects{}
		root := objects.add(&fakeObject{data: []byte("x"), remote: true})
		n := newTestGateway(t, objects, func(c *Config, _ *server.AdminConfig) {
			c.Rate, c.Burst, c.RateWait = 1, 1, 10*time.Second
		})
		s := n.Handler(server.Public)
		get := func(headers ...string) *httptest.ResponseRecorder {
			return serve(s, http.MethodGet, "/o/"+root.String(), "192.0.2.1:1", nil, headers...)
		}
		begun := time.Now()
		for i := range 3 {
			if rec := get(); rec.Code != http.StatusOK || time.Since(begun) != time.Duration(i)*time.Second {
				t.Fatalf("request %d: %d after %s", i, rec.Code, time.Since(begun))
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if rec := get("Request-Timeout", "0.3"); rec.Code != http.StatusGatewayTimeout {
				t.Errorf("a request of 0.3 s: %d %s", rec.Code, rec.Body)
			}
		})
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			r := httptest.NewRequestWithContext(gone, http.MethodGet, "/o/"+root.String(), nil)
			r.RemoteAddr = "192.0.2.1:1"
			s.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		waiting, decided := n.current("gateway.rate_waiting"), n.current("gateway.inflight")
		if waiting != 2 || decided != 0 {
			t.Errorf("%d wait, %d are decided", waiting, decided)
		}
		time.Sleep(400 * time.Millisecond)
		leave()
		synctest.Wait()
		if waiting, bytes := n.current("gateway.rate_waiting"),
			n.current("gateway.rate_waiting_bytes"); waiting+bytes != 0 {
			t.Errorf("%d with %d bytes still wait", waiting, bytes)
		}
		for range 3 {
			wg.Go(func() {
				if rec := get(); rec.Code != http.StatusOK && rec.Code != http.StatusServiceUnavailable {
					t.Errorf("while the node drains: %d", rec.Code)
				}
			})
		}
		time.Sleep(time.Second)
		ended := time.Now()
		if err := n.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if took := time.Since(ended); took != 0 {
			t.Errorf("the drain took %s", took)
		}
	})
}

// TestAloneIsFree: a client that has the gateway to itself may read what is here as fast as it can; what asks the
// network, or needs a capability, counts.
func TestAloneIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := &fakeObjects{}
		near, far := objects.put([]byte("near")), objects.add(&fakeObject{data: []byte("far"), remote: true})
		dir := objects.tree(t, map[string]string{"a": "b"})
		n := newTestGateway(t, objects,
			func(c *Config, _ *server.AdminConfig) { c.Rate, c.Burst, c.RateWait = 1, 10, 0 })
		ask := func(method, path, from string) (in int) {
			for range 100 {
				if serve(n.Handler(server.Public), method, path, from, nil).Code != http.StatusTooManyRequests {
					in++
				}
			}
			return in
		}
		for _, c := range []struct {
			method, path, from string
			want               int
		}{
			{http.MethodGet, "/o/" + near.String(), "192.0.2.1:1", 100},
			{http.MethodHead, "/b3/" + dir.String() + "/a", "192.0.2.1:1", 100},
			{http.MethodGet, "/b3/" + dir.String() + "/none", "192.0.2.1:1", 100},
			{http.MethodGet, "/o/" + far.String(), "192.0.2.1:1", 9}, // one is reserved for others
			{http.MethodPut, "/o/" + near.String(), "192.0.2.1:1", 0},
			{http.MethodGet, "/o/" + near.String(), "192.0.2.2:1", 1}, // the first client was here just now
		} {
			if in := ask(c.method, c.path, c.from); in != c.want {
				t.Errorf("%s %s from %s: %d of 100 got in, want %d", c.method, c.path, c.from, in, c.want)
			}
		}
		time.Sleep(2 * time.Second)
		if in := ask(http.MethodGet, "/o/"+near.String(), "192.0.2.2:1"); in != 100 {
			t.Errorf("the second client alone: %d of 100", in)
		}
	})
}

// TestClientsAreFair: over HTTP as in limits.FairRate: one client at ten times
// the rate of the instance costs 31 others next to nothing.
func TestClientsAreFair(t *testing.T) {
	t.Parallel()
	const honest, length = 31, 5 * time.Second
	count := func(flood bool) (in [honest + 1]int) {
		synctest.Test(t, func(t *testing.T) {
			objects := &fakeObjects{}
			root := objects.put([]byte("x"))
			s := newTestGateway(t, objects).Handler(server.Public)
			ask := func(i int, every, length time.Duration) {
				from := "192.0.2." + strconv.Itoa(i+1) + ":1"
				for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(every) {
					if serve(s, http.MethodGet, "/o/"+root.String(), from, nil).Code == http.StatusOK {
						in[i]++
					}
				}
			}
			var wg sync.WaitGroup
			if flood {
				wg.Go(func() { ask(honest, time.Second/5000, length+time.Second) })
				time.Sleep(time.Second)
			}
			for i := range honest {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 2 * time.Millisecond)
					ask(i, time.Second*32/500, length)
				})
			}
			wg.Wait()
		})
		return in
	}
	alone, beside := count(false), count(true)
	for i := range honest {
		if 10*beside[i] < 9*alone[i] {
			t.Errorf("client %d: %d answers, %d alone", i, beside[i], alone[i])
		}
	}
}

// TestInflightPerClient: one client does not take the places of all.
func TestInflightPerClient(t *testing.T) {
	t.Parallel()
	n := start(t,
		func(c *Config, _ *server.AdminConfig) { c.InflightPerIP, c.TrustedProxies = 1, []string{"127.0.0.1"} })
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	fast := n.objects.put([]byte("fast"))
	first := make(chan answer, 1)
	go func() {
		first <- do(t, "GET", n.Addrs().Gateway+"/o/"+slow.String(), "X-Forwarded-For", "192.0.2.1")
	}()
	testkit.Eventually(t, "one request in flight", func() bool { return n.InFlight() == 1 })
	p := do(t, "GET", n.Addrs().Gateway+"/o/"+fast.String(), "X-Forwarded-For", "192.0.2.1").problem(t, status.Busy)
	if p.Limit != "gateway.inflight_per_ip" || p.Cap != 1 || p.Current != 1 {
		t.Errorf("%+v", p)
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/o/"+fast.String(), "X-Forwarded-For", "192.0.2.2"); a.body != "fast" {
		t.Errorf("another client: %s", a.Status)
	}
	close(gate)
	if a := <-first; a.body != "slow" {
		t.Errorf("%s", a.Status)
	}
}

// TestMisses: what is not here waits for its turn to be asked for, apart from
// what is; whose time is over is not begun.
func TestMisses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := &fakeObjects{}
		gate := make(chan struct{})
		far := objects.add(&fakeObject{data: []byte("far"), remote: true, gate: gate})
		other := objects.add(&fakeObject{data: []byte("other"), remote: true})
		near := objects.put([]byte("near"))
		g := newTestGateway(t, objects, func(c *Config, _ *server.AdminConfig) {
			c.Content.Fetches, c.Content.FetchesWaiting, c.Content.FetchesPerIP, c.Content.FirstByteTimeout = 1, 1, 2,
				time.Minute
		})
		s := g.Handler(server.Public)
		get := func(root b3.Root, from string, headers ...string) *httptest.ResponseRecorder {
			return serve(s, http.MethodGet, "/o/"+root.String(), from, nil, headers...)
		}
		var wg sync.WaitGroup
		codes := make([]int, 3)
		wg.Go(func() { codes[0] = get(far, "192.0.2.1:1").Code })
		synctest.Wait()
		wg.Go(func() { codes[1] = get(other, "192.0.2.1:1").Code })
		synctest.Wait()
		wg.Go(func() { codes[2] = get(other, "192.0.2.1:1").Code }) // waits for one of its client's places
		synctest.Wait()
		for from, limit := range map[string]string{"192.0.2.1:1": "gateway.misses_per_ip", "192.0.2.2:1": "gateway.misses"} {
			if rec := get(other, from); rec.Code != http.StatusTooManyRequests ||
				!strings.Contains(rec.Body.String(), `"limit":"`+limit+`"`) {
				t.Errorf("%s: %d %s", from, rec.Code, rec.Body)
			}
		}
		if rec := get(near, "192.0.2.1:1"); rec.Code != http.StatusOK {
			t.Errorf("a hit waited: %d", rec.Code)
		}
		if rec := get(other, "192.0.2.2:1", "Cache-Control",
			"only-if-cached"); rec.Code != http.StatusPreconditionFailed {
			t.Errorf("only-if-cached: %d", rec.Code)
		}
		close(gate)
		wg.Wait()
		if codes[0] != 200 || codes[1] != 200 { // the third may come to the gate before the second has left its line
			t.Errorf("%v", codes)
		}

		held := make(chan struct{})
		slow := objects.add(&fakeObject{data: []byte("slow"), remote: true, gate: held})
		wg.Go(func() { get(slow, "192.0.2.3:1") })
		synctest.Wait()
		opened := len(objects.opens)
		begun := time.Now()
		rec := get(other, "192.0.2.1:1", "Request-Timeout", "2.5")
		if rec.Code != http.StatusGatewayTimeout || time.Since(begun) != 2500*time.Millisecond ||
			!strings.Contains(rec.Body.String(), "route object ") {
			t.Errorf("%d after %s: %s", rec.Code, time.Since(begun), rec.Body)
		}
		if len(objects.opens) != opened+1 || counterOf(t, g.reg, "gateway_expired_total") != 1 {
			t.Errorf("%d opens, %v expired", len(objects.opens)-opened, counterOf(t, g.reg, "gateway_expired_total"))
		}
		close(held)
		wg.Wait()
		if rec := get(other, "192.0.2.1:1"); rec.Code != http.StatusOK {
			t.Errorf("afterwards: %d", rec.Code)
		}
	})
}

// TestMissesQueueForTheirClient: what one client asks for beyond its places waits
// for one of them, and those of others are not behind it.
func TestMissesQueueForTheirClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := &fakeObjects{}
		gate := make(chan struct{})
		far := objects.add(&fakeObject{data: []byte("far"), remote: true, gate: gate})
		near := objects.add(&fakeObject{data: []byte("near"), remote: true})
		g := newTestGateway(t, objects,
			func(c *Config, _ *server.AdminConfig) { c.Content.FirstByteTimeout = time.Minute })
		s := g.Handler(server.Public)
		codes := make([]int, 100)
		var wg sync.WaitGroup
		for i := range codes {
			wg.Go(func() {
				codes[i] = serve(s, http.MethodGet, "/o/"+far.String(), "192.0.2.1:1", nil).Code
			})
		}
		synctest.Wait()
		if rec := serve(s, http.MethodGet, "/o/"+near.String(), "192.0.2.2:1", nil); rec.Code != http.StatusOK {
			t.Errorf("another client: %d", rec.Code)
		}
		// Who does not want to wait any more leaves the line.
		if rec := serve(s, http.MethodGet, "/o/"+far.String(), "192.0.2.1:1", nil, "Request-Timeout",
			"1"); rec.Code != http.StatusGatewayTimeout {
			t.Errorf("one that gives up: %d", rec.Code)
		}
		close(gate)
		wg.Wait()
		for i, code := range codes {
			if code != http.StatusOK {
				t.Errorf("request %d: %d", i, code)
			}
		}
		for _, l := range g.limits.Snapshot() {
			if l.Name == "gateway.misses_per_ip" && l.Current != 0 {
				t.Errorf("a client still has %d places", l.Current)
			}
		}
	})
}

// TestMissesLeaveHitsTheirPlaces: requests that ask the network, or wait for their
// turn to, take none of the places of requests being decided, so that what is here
// is had beside as many of them as clients may have.
func TestMissesLeaveHitsTheirPlaces(t *testing.T) {
	t.Parallel()
	d := DefaultConfig()
	for name, c := range map[string]struct {
		clients, each int   // that ask for what is not here
		inflight      int64 // places
	}{
		"one client's 100 streams":        {1, 100, 10},
		"clients at the limits of a node": {5, int(d.InflightPerIP), d.Inflight},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				objects := &fakeObjects{}
				gate := make(chan struct{})
				far := objects.add(&fakeObject{data: []byte("far"), remote: true, gate: gate})
				near := objects.put([]byte("near"))
				g := newTestGateway(t, objects, func(cfg *Config, _ *server.AdminConfig) {
					cfg.Inflight, cfg.Rate, cfg.Content.FirstByteTimeout = c.inflight, 0, time.Minute
				})
				s := g.Handler(server.Public)
				codes := make([]int, c.clients*c.each)
				var wg sync.WaitGroup
				for i := range codes {
					if i%int(c.inflight) == 0 {
						synctest.Wait() // those before are not being decided any more
					}
					from := "192.0.2." + strconv.Itoa(1+i/c.each) + ":1"
					wg.Go(func() { codes[i] = serve(s, http.MethodGet, "/o/"+far.String(), from, nil).Code })
				}
				synctest.Wait()
				if rec := serve(s, http.MethodGet, "/o/"+near.String(), "192.0.2.200:1",
					nil); rec.Code != http.StatusOK {
					t.Errorf("what is here: %d %s", rec.Code, rec.Body)
				}
				close(gate)
				wg.Wait()
				for i, code := range codes {
					if code != http.StatusOK {
						t.Fatalf("request %d of %d: %d", i, len(codes), code)
					}
				}
				if got := g.current("gateway.inflight"); got != 0 { // each place is given back once
					t.Errorf("%d places are taken", got)
				}
			})
		})
	}
}

// TestRequestTimeoutIsEverywhere: it bounds the local API too, and names what
// was not done.
func TestRequestTimeoutIsEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newTestGateway(t, &fakeObjects{})
		g.node.get.set(func(ctx context.Context, _ string) (*api.Stream, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		s := g.Handler(server.Socket)
		begun := time.Now()
		rec := serve(s, http.MethodGet, "/api/v1/get?key=x", "@", nil, "Request-Timeout", "1.5")
		if rec.Code != http.StatusGatewayTimeout || time.Since(begun) != 1500*time.Millisecond ||
			!strings.Contains(rec.Body.String(), "route api/get ") {
			t.Errorf("%d after %s: %s", rec.Code, time.Since(begun), rec.Body)
		}
		for _, bad := range []string{"0", "-1", "x", "NaN"} {
			if rec := serve(s, http.MethodGet, "/api/v1/id", "@", nil, "Request-Timeout",
				bad); rec.Code != http.StatusBadRequest {
				t.Errorf("%s: %d", bad, rec.Code)
			}
		}
	})
}

// TestOpsAnswerWhenAllIsFull: every gate is held, the rate is used up, and the
// listener holds as many connections as it may.
func TestOpsAnswerWhenAllIsFull(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, a *server.AdminConfig) {
		c.Conns, c.ConnsPerIP, c.Inflight, c.Uploads, a.Inflight = 8, 0, 1, 1, 1
	})
	root := n.objects.put([]byte("x"))
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	n.node.get.set(func(context.Context, string) (*api.Stream, error) { <-gate; return nil, errors.New("late") })
	body, feed := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { do(t, "GET", n.Addrs().Gateway+"/o/"+slow.String()) })
	wg.Go(func() { do(t, "GET", n.Addrs().Admin+"/api/v1/get?key=x") })
	wg.Go(func() { doBody(t, "POST", n.Addrs().Gateway+"/o", body, "Authorization", "Bearer may-put,pin") })
	defer wg.Wait()
	defer feed.Close()
	defer close(gate)
	testkit.Eventually(t, "three requests in flight", func() bool { return n.InFlight() == 3 })
	for range 32 {
		do(t, "GET", n.Addrs().Gateway+"/o/"+root.String()).problem(t, status.Busy)
		do(t, "GET", n.Addrs().Admin+"/api/v1/id").problem(t, status.Busy)
		doBody(t, "POST", n.Addrs().Gateway+"/o", strings.NewReader("x"), "Authorization",
			"Bearer may-put,pin").problem(t,
			status.Busy)
	}
	for range 8 {
		if _, err := io.WriteString(dialRaw(t, n), "GET / HTTP/1.1\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
	}
	ops := []string{
		n.Addrs().Gateway + "/healthz", n.Addrs().Gateway + "/readyz", n.Addrs().Admin + "/healthz", n.Addrs().Admin +
			"/readyz",
		n.Addrs().Admin + "/metrics", n.Addrs().Admin + "/version", n.Addrs().Admin + "/limits",
	}
	for range 4 {
		for _, page := range ops {
			if a := do(t, "GET", page); a.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", page, a.Status)
			}
		}
	}
}

// TestNoLimits: what is set to none is none, and is listed as such.
func TestNoLimits(t *testing.T) {
	t.Parallel()
	reg := limits.NewRegistry(nil)
	objects := &fakeObjects{}
	root := objects.put([]byte("x"))
	cfg := DefaultConfig()
	cfg.Rate, cfg.InflightPerIP, cfg.ConnsPerIP, cfg.Content.FetchesPerIP = 0, 0, 0, 0
	g, err := New(cfg, server.DefaultAdminConfig(), Deps{
		Env: env.Env{Limits: reg}, Objects: objects, Index: &fakeIndex{}, Node: &fakeNode{}, Ready: nothingReady,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range reg.Snapshot() {
		if (l.Name == "gateway.rate" || l.Name == "gateway.inflight_per_ip") && l.Capacity != 0 {
			t.Errorf("%+v", l)
		}
	}
	s := g.Handler(server.Public)
	for i := range 3000 {
		if rec := serve(s, http.MethodGet, "/o/"+root.String(), "192.0.2.1:1", nil); rec.Code != http.StatusOK {
			t.Fatalf("request %d: %d", i, rec.Code)
		}
	}
}

// BenchmarkServed is the gateway's own part of a small GET, from RAM.
func BenchmarkServed(b *testing.B) {
	objects := &provenObjects{data: make([]byte, 4<<10)}
	objects.root = b3.Sum(objects.data)
	for name, o := range map[string]option{
		"limits":    func(c *Config, _ *server.AdminConfig) { c.Rate, c.Burst = 1e9, 1<<30 },
		"no limits": func(c *Config, _ *server.AdminConfig) { c.Rate, c.InflightPerIP = 0, 0 },
	} {
		b.Run(name, func(b *testing.B) {
			s := newTestGateway(b, objects, o).Handler(server.Public)
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/o/"+objects.root.String(), nil)
			w := &discardResponse{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				s.ServeHTTP(w, r)
			}
		})
	}
}

type discardResponse struct{ h http.Header }

func (d *discardResponse) Header() http.Header         { return d.h }
func (d *discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (d *discardResponse) WriteHeader(int)             {}

func (d *discardResponse) SetWriteDeadline(time.Time) error { return nil }
