package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"allium/gateway/exchange"
	"allium/gateway/server/conns"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table are the endpoints of a test: an object that is read, and one that is sent.
var table = []exchange.Endpoint{
	{ID: "get", Name: "object", Path: "/o/{b3}", Methods: exchange.Reading, On: exchange.OnPublic,
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
			return w.Send(r, http.StatusOK, "text/plain", []byte("hello"))
		}},
	{ID: "put", Name: "object", Path: "/o/{b3}", Methods: []string{http.MethodPut}, On: exchange.OnPublic,
		Op: capability.Put, Upload: true,
		Body: []exchange.Payload{{Media: exchange.MediaAny}},
		Serve: func(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
			return status.Errorf(status.Unsupported, "the handler says so")
		}},
}

// tokens are the capabilities of a test: they name the operation they allow.
type tokens struct{}

func (tokens) Verify(_ context.Context, token string, ask capability.Request) (capability.Grant, error) {
	if token != "may-"+string(ask.Op) {
		return capability.Grant{}, status.Errorf(status.Forbidden, "the capability does not allow %s", ask.Op)
	}
	return capability.Grant{MaxBytes: -1}, nil
}

// newServer is a Server of the table that listens nowhere.
func newServer(t testing.TB, change func(*Config)) *Server {
	t.Helper()
	cfg := DefaultConfig()
	change(&cfg)
	log := slog.New(slog.DiscardHandler)
	r := limits.NewRegistry(nil)
	s, err := New(cfg, DefaultAdminConfig(), Deps{
		Env:   env.Env{Log: log, Limits: r},
		Table: table, Bodies: exchange.NewBodies(exchange.DefaultBodyConfig(), cfg.MinRate, r),
		Guard:        exchange.NewGuard(log, nil),
		Capabilities: tokens{},
	}, DefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve answers one request of a client without a socket.
func serve(h http.Handler, method, path string, body io.Reader, host, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, body)
	r.RemoteAddr, r.Host = "192.0.2.1:1", host
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// TestOrderOfAdmission: of several errors that apply, the one of the earliest
// step is told; each case mends one more.
func TestOrderOfAdmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(c *Config) { c.Rate, c.Burst, c.Uploads, c.RateWait = 1, 1, 1, 0 })
		h := s.Handler(Public)
		if err := s.bounds.uploads.Enter(); err != nil {
			t.Fatal(err)
		}
		share, err := s.bounds.clients.Enter(conns.GroupOf(conns.AddrOf("192.0.2.1:1")))
		if err != nil {
			t.Fatal(err)
		}
		share.Leave() // and its token is spent
		host, token := "", ""
		path := "/o/" + strings.Repeat("Z", 64)
		for _, step := range []struct {
			want status.Outcome
			mend func()
		}{
			{status.BadRequest, func() { host = "x" }},
			{status.Busy, func() { s.bounds.uploads.Leave() }},
			{status.RateLimit, func() { time.Sleep(time.Second) }},
			{status.Unauthenticated, func() { token = "may-get"; time.Sleep(time.Second) }},
			{status.Forbidden, func() { token = "may-put"; time.Sleep(time.Second) }},
			{status.Unsupported, func() { time.Sleep(time.Second) }}, // of the handler
		} {
			rec := serve(h, http.MethodPut, path, strings.NewReader("body"), host, token)
			if got := rec.Header().Get("X-Reason"); got != step.want.String() {
				t.Fatalf("%s, want %s: %s", got, step.want, rec.Body)
			}
			if rec.Header().Get("X-Corr-ID") == "" {
				t.Errorf("%s has no X-Corr-ID", step.want)
			}
			step.mend()
		}
		// The body cap is after the rate, so that it cannot be had for nothing.
		for _, want := range []status.Outcome{status.BodyCap, status.RateLimit} {
			rec := serve(h, http.MethodGet, "/o/"+b3.Sum(nil).String(), strings.NewReader("body"), host, "")
			if got := rec.Header().Get("X-Reason"); got != want.String() {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

// BenchmarkRefused is what a request costs that the rate refuses.
func BenchmarkRefused(b *testing.B) {
	s := newServer(b, func(c *Config) { c.Rate, c.Burst, c.RateWait = 1, 1, 0 })
	h := s.Handler(Public)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPut, "/o/"+b3.Sum(nil).String(), nil)
	w := &discardResponse{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		h.ServeHTTP(w, r)
	}
	if testutil.ToFloat64(s.metrics.rejected.WithLabelValues("rate_limit")) == 0 && b.N > 10 {
		b.Fatal("nothing was refused")
	}
}

type discardResponse struct{ h http.Header }

func (d *discardResponse) Header() http.Header              { return d.h }
func (d *discardResponse) Write(p []byte) (int, error)      { return len(p), nil }
func (d *discardResponse) WriteHeader(int)                  {}
func (d *discardResponse) SetWriteDeadline(time.Time) error { return nil }
