package origin

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"allium/protocols/status"
)

// jumpy are limits with which few failures open the breaker.
func jumpy(c *Config, _ *Deps) {
	c.Params.BreakerMinCalls, c.Params.BreakerCooldown, c.Params.BreakerWindow = 3, time.Hour, time.Minute
}

// TestBreaker: it opens after failures of many paths, lets a probe through after its cooldown, and closes after
// successes, also while a bad path is asked for all the time.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var code atomic.Int64
	code.Store(500)
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/bad") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(int(code.Load()))
	}, func(c *Config, d *Deps) {
		jumpy(c, d)
		c.Params.BreakerCooldown = time.Second
	})
	for _, path := range []string{"bad", "a", "b"} {
		_, _, err := r.get(t, path)
		want(t, "failing", err, status.Upstream, "status_500")
	}
	_, _, err := r.get(t, "c")
	want(t, "open", err, status.BreakerOpen, "")
	if status.ReportOf(err).RetryAfterMS == 0 || !Failing(err) || r.asked.Load() != 3 {
		t.Errorf("%v; %d requests", err, r.asked.Load())
	}
	code.Store(200)
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, _, _ = r.get(t, "bad")
		if _, _, err = r.get(t, "a"); err == nil || time.Now().After(deadline) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	want(t, "half open", err, status.OK, "")
	code.Store(404) // an answer that says no is none of its failures
	for range 10 {
		_, _, err := r.get(t, "bad")
		want(t, "bad", err, status.Upstream, "status_500")
		_, _, err = r.get(t, "missing")
		want(t, "missing", err, status.NotFound, "")
	}
}

// TestBreakerBadPath: one path with which an origin fails shuts no other, however it fails and however often it is
// asked for. Other paths that fail are another matter.
func TestBreakerBadPath(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]http.HandlerFunc{
		"500":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"503":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"429":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"half of it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write(make([]byte, 50))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		for _, h2 := range []bool{true, false} {
			r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
				if strings.Contains(q.URL.Path, "/bad") {
					fail(w, q)
				}
			}, jumpy)
			if !h2 {
				r.transport.TLSClientConfig.NextProtos, r.transport.ForceAttemptHTTP2 = []string{"http/1.1"}, false
			}
			for i := range 10 {
				_, _, err := r.get(t, "bad")
				want(t, name, err, status.Upstream, "-")
				if !Failing(err) || Repeated(err) != (i > 0) {
					t.Errorf("%s, h2 %t: %v fails %t, repeated %t", name, h2, Cause(err), Failing(err), Repeated(err))
				}
			}
			_, _, err := r.get(t, "good")
			want(t, name+", another path", err, status.OK, "")
			for i := range 3 {
				_, _, _ = r.get(t, fmt.Sprint("bad", i))
			}
			_, _, err = r.get(t, "good")
			want(t, name+", many paths", err, status.BreakerOpen, "")
		}
	}
}

// TestBreakerAway: an origin that cannot be reached or is late is left alone, whatever is asked of it.
func TestBreakerAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit  func(*Config, *Deps)
		close bool
		o     status.Outcome
	}{
		"refused":     {func(*Config, *Deps) {}, true, status.Upstream},
		"certificate": {func(c *Config, _ *Deps) { c.Roots = x509.NewCertPool() }, false, status.Upstream},
		"late":        {func(c *Config, _ *Deps) { c.Params.FirstByte = 20 * time.Millisecond }, false, status.Timeout},
	} {
		r := newRig(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, func(cfg *Config, d *Deps) {
			jumpy(cfg, d)
			c.edit(cfg, d)
		})
		if c.close {
			r.server.Close()
		}
		for range 3 {
			_, _, err := r.get(t, "a")
			want(t, name, err, c.o, "-")
		}
		_, _, err := r.get(t, "a")
		want(t, name, err, status.BreakerOpen, "")
		r.server.CloseClientConnections()
	}
}

// TestBreakerWindow: a path counts again after the window, and the breaker remembers a bounded number of paths.
func TestBreakerWindow(t *testing.T) {
	t.Parallel()
	b, err := newBreaker(DefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, at := range []time.Duration{0, b.window - 1, b.window, 2*b.window - 1, 2 * b.window} {
		if got := b.first("a", now.Add(at)); got != (i%2 == 0) {
			t.Errorf("after %s: %t", at, got)
		}
	}
	for i := range 2 * failedPaths {
		b.first(fmt.Sprint(i), now)
	}
	if n := b.failed.Len(); n != failedPaths {
		t.Errorf("%d paths", n)
	}
}
