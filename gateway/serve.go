package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"allium/protocols/status"
)

// ServeHTTP is the path of every request: correlation id, guard, gate, rate,
// handler, and what is said of it afterwards.
func (s *side) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	if !s.g.handlers.enter() {
		panic(http.ErrAbortHandler) // of an HTTP/2 connection that was closed already
	}
	defer s.g.handlers.leave()
	c := connOf(r)
	if !c.begin() {
		panic(http.ErrAbortHandler) // it made room for another
	}
	defer c.end()
	rt := s.router.route(r.URL.EscapedPath(), r.Method)
	name := rt.name
	if rt.serve == nil {
		name = noRoute
	}
	w := s.newResponse(hw)
	w.from = s.g.proxies.originOf(r)
	if s.discreet {
		w.origins, w.origin = s.g.cfg.CORSOrigins, r.Header.Get("Origin")
	}
	w.conn = c.joins(r)
	w.corr = corrID(r)
	h := w.Header()
	h["X-Corr-Id"] = w.value(w.corr)
	h["X-Content-Type-Options"] = noSniff
	h["Referrer-Policy"] = noReferrer
	if s.hsts != "" {
		h.Set("Strict-Transport-Security", s.hsts)
	}
	if len(r.TransferEncoding) > 0 && !s.trusted || !r.ProtoAtLeast(1, 1) {
		// Where a body ends may have been told twice, or in HTTP/1.0 by a
		// Transfer-Encoding that net/http passes over (RFC 9112 §6.1, §6.3), and it
		// does not say so: what follows is never taken for a request.
		h["Connection"] = closing
	}
	w.arm(0) // a deadline of the connection's last request must not end this one

	m := s.g.m.route(name)
	m.inflight.Inc()
	start := time.Now()
	err := s.answer(rt, w, r)
	m.inflight.Dec()
	took := time.Since(start)
	m.latency.Observe(took.Seconds())

	cut := s.finish(w, r, err)
	s.access(w, r, name, start, took, err, cut)
	s.conclude(rt, w, r, err)
	if cut {
		panic(http.ErrAbortHandler) // the one way to end an answer so that it does not look whole
	}
	s.g.linger(w, r)
}

// Values of headers that every answer has; nobody changes them.
var (
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	closing    = []string{"close"}
)

// answer admits the request and runs its handler; a panic is an error.
func (s *side) answer(rt route, w *response, r *http.Request) (err error) {
	if err := s.admit(rt, w, r); err != nil {
		s.g.m.rejected.WithLabelValues(status.Of(err).String()).Inc()
		if status.Of(err) == status.Method {
			rt.allow(w)
		}
		w.leaveBody(r)
		return err
	}
	defer s.leave(rt, w)
	r, stop, err := budget(rt, r)
	if err == nil {
		r, end := s.paced(rt, w, r)
		if err = s.record(rt, w, r); err == nil {
			err = s.g.guarded(func() error { return rt.answer(s.g, w, r) })
		}
		err = w.because(r.Context(), err)
		end()
		stop()
	}
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

// paced makes a body that a handler reads by itself keep coming; uploads ask for
// that when they begin to read. On a Unix socket it may wait for its own input.
func (s *side) paced(rt route, w *response, r *http.Request) (*http.Request, func()) {
	if !rt.streams || rt.upload || s.patient {
		return r, func() {}
	}
	b := s.g.bodyOf(w, r)
	read := *r // net/http looks at the body of its own request
	read.Body = io.NopCloser(b)
	return &read, b.end
}

// budget shortens a request's time to what its Request-Timeout (seconds) says.
// It never makes it longer: the bounds of the node hold beside it.
func budget(rt route, r *http.Request) (*http.Request, context.CancelFunc, error) {
	values := r.Header["Request-Timeout"]
	if len(values) == 0 || rt.free {
		return r, func() {}, nil
	}
	d, err := strconv.ParseFloat(values[0], 64)
	if err != nil || !(d > 0) || len(values) > 1 {
		return r, nil, status.Errorf(status.BadRequest, "Request-Timeout is %q, want seconds", clip(strings.Join(values, ", ")))
	}
	ctx, stop := context.WithTimeoutCause(r.Context(), time.Duration(min(d, 3600)*float64(time.Second)),
		status.Errorf(status.Timeout, "%s: it was not done within the Request-Timeout of %s s", rt.name, clip(values[0])))
	return r.WithContext(ctx), stop, nil
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
	bad := w.status >= http.StatusInternalServerError && err != nil && !ordinary(err) || cut // no error: readyz says no
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
	if !w.root.IsZero() {
		attrs = append(attrs, slog.String("b3", w.root.Hex()[:8]))
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
	given := r.Header["X-Corr-Id"] // as net/http writes it
	if len(given) == 0 {
		return newCorrID()
	}
	id := given[0]
	if id == "" || len(id) > 64 {
		return newCorrID()
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return newCorrID()
		}
	}
	return id
}

func newCorrID() string {
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	var digits [16]byte
	return string(hex.AppendEncode(digits[:0], id[:]))
}

// causeOf is why ctx ended, if it did, and err otherwise: a read that was
// interrupted says only that it was.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) && status.Of(err) != status.Corrupt {
		return cause
	}
	return err
}
