package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"allium/protocols/status"
)

// ServeHTTP is the path of every request: correlation id, guard, gate, rate,
// handler, and what is said of it afterwards.
func (s *side) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	g := s.g
	if !g.handlers.enter() {
		panic(http.ErrAbortHandler) // of an HTTP/2 connection that was closed already
	}
	defer g.handlers.leave()
	rt := s.router.route(r.URL.EscapedPath(), r.Method)
	name := rt.name
	if rt.serve == nil {
		name = "none"
	}
	w := newResponse(hw, g.cfg, s.patient)
	h := w.Header()
	h.Set("X-Corr-ID", corrID(r))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if s.hsts != "" {
		h.Set("Strict-Transport-Security", s.hsts)
	}
	w.arm(0) // a deadline of the connection's last request must not end this one

	inflight := g.m.inflight.WithLabelValues(name)
	inflight.Inc()
	start := time.Now()
	err := s.answer(rt, w, r)
	inflight.Dec()
	took := time.Since(start)
	g.m.latency.WithLabelValues(name).Observe(took.Seconds())

	cut := s.finish(w, r, err)
	s.access(w, r, name, start, took, err, cut)
	if cut {
		panic(http.ErrAbortHandler) // the one way to end an answer so that it does not look whole
	}
}

// answer admits the request and runs its handler; a panic is an error.
func (s *side) answer(rt route, w *response, r *http.Request) (err error) {
	leave, err := s.admit(rt, w, r)
	if err != nil {
		s.g.m.rejected.WithLabelValues(status.Of(err).String()).Inc()
		if status.Of(err) == status.Method {
			rt.allow(w)
		}
		w.leaveBody(r)
		return err
	}
	defer leave()
	err = s.g.guarded(func() error { return rt.answer(s.g, w, r) })
	if err == nil {
		return nil
	}
	if rt.streams {
		s.g.m.refuse(status.Of(err))
	}
	if !w.started() {
		w.leaveBody(r)
	}
	return err
}

// guarded runs f and turns a panic into an error, so that it never kills the
// node. It is logged with its stack here, where the stack still is.
func (g *Gateway) guarded(f func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		g.m.panics.Inc()
		g.log.Error("panic in a handler", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		err = status.Errorf(status.Internal, "a handler panicked: %v", v)
	}()
	return f()
}

// finish answers an error that came before the first byte, and reports whether
// the connection has to be cut because it came later.
func (s *side) finish(w *response, r *http.Request, err error) (cut bool) {
	if err == nil {
		return w.short()
	}
	if !w.started() {
		problem(w, r, err, s.discreet)
		return false
	}
	if w.failed == nil && status.Of(err) != status.Canceled {
		s.g.m.cut.Inc()
	}
	return true
}

// access logs a request: failures, and slow starts where nobody is patient, as
// warnings, the rest for debugging. Addresses are logged by 8 digits, paths and
// peers not at all.
func (s *side) access(w *response, r *http.Request, name string, start time.Time, took time.Duration, err error, cut bool) {
	level := slog.LevelDebug
	firstByte := w.first.Sub(start)
	gone := w.failed != nil || status.Of(err) == status.Canceled
	bad := w.status >= http.StatusInternalServerError && !ordinary(err) || cut
	slow := firstByte > s.g.cfg.SlowRequest && !s.patient
	if !gone && (bad || slow) {
		level = slog.LevelWarn
	}
	log := s.g.log
	if !log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("route", name), slog.String("method", clip(r.Method)), slog.Int("status", w.status),
		slog.Int64("bytes", w.bytes), slog.Duration("took", took), slog.Duration("first_byte", firstByte),
		slog.String("corr_id", w.Header().Get("X-Corr-ID")),
	}
	if w.addr != "" {
		attrs = append(attrs, slog.String("b3", w.addr))
	}
	if err != nil {
		attrs = append(attrs, slog.String("reason", status.Of(err).String()), slog.String("err", err.Error()))
	}
	log.LogAttrs(r.Context(), level, "http request", attrs...)
}

// ordinary reports whether err is a 5xx that tells nobody of a fault: the node is
// stopping, or was asked for what it is configured not to do.
func ordinary(err error) bool {
	o := status.Of(err)
	return o == status.Draining || o == status.Amnesia
}

// corrID is the request's X-Corr-ID if it is a plain token of up to 64
// characters, else a new one of 16 hex digits.
func corrID(r *http.Request) string {
	id := r.Header.Get("X-Corr-ID")
	if id == "" || len(id) > 64 {
		return fmt.Sprintf("%016x", rand.Uint64())
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Sprintf("%016x", rand.Uint64())
		}
	}
	return id
}

// causeOf is why ctx ended, if it did, and err otherwise: a read that was
// interrupted says only that it was.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) && status.Of(err) != status.Corrupt {
		return cause
	}
	return err
}
