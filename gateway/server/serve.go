package server

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// ServeHTTP is the path of every request: correlation id, guard, gate, rate,
// handler, and what is said of it afterwards.
func (l *listener) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	if !l.server.handlers.Enter() {
		panic(http.ErrAbortHandler) // of an HTTP/2 connection that was closed already
	}
	defer l.server.handlers.Leave()
	c := connOf(r)
	if !c.begin() {
		panic(http.ErrAbortHandler) // it made room for another
	}
	defer c.end()
	rt := l.router.route(r.URL.EscapedPath(), r.Method)
	name := rt.name
	if rt.serve == nil {
		name = noRoute
	}
	w := l.newDelivery(hw, r)
	w.From = l.server.proxies.originOf(r)
	if l.discreet {
		w.origins, w.asking = l.server.cfg.CORSOrigins, r.Header.Get("Origin")
	}
	w.conn = c.joins(r)
	w.CorrID = corrID(r)
	w.Page = l.discreet && (rt.page || rt.serve == nil)
	h := w.Header()
	h["X-Corr-Id"] = w.HeaderValue(w.CorrID)
	h["X-Content-Type-Options"] = noSniff
	h["Referrer-Policy"] = noReferrer
	if l.hsts != "" {
		h.Set("Strict-Transport-Security", l.hsts)
	}
	if len(r.TransferEncoding) > 0 && !l.trusted || !r.ProtoAtLeast(1, 1) {
		// Where a body ends may have been told twice, or in HTTP/1.0 by a
		// Transfer-Encoding that net/http passes over (RFC 9112 §6.1, §6.3), and it
		// does not say so: what follows is never taken for a request.
		h["Connection"] = closing
	}
	w.judged(c)
	defer w.stream.stop()
	w.arm(0) // a deadline of the connection's last request must not end this one

	m := l.server.metrics.route(name)
	m.inflight.Inc()
	start := time.Now()
	err := l.answer(rt, w, r)
	m.inflight.Dec()
	took := time.Since(start)
	m.latency.Observe(took.Seconds())

	cut := l.finish(w, r, err) || w.evicted
	l.access(w, r, name, start, took, err, cut)
	l.conclude(rt, w, r, err)
	if cut {
		panic(http.ErrAbortHandler) // the one way to end an answer so that it does not look whole
	}
	l.server.linger(w, r)
}

// Values of headers that every answer has; nobody changes them.
var (
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	closing    = []string{"close"}
)

// answer admits the request and runs its handler; a panic is an error.
func (l *listener) answer(rt route, w *delivery, r *http.Request) (err error) {
	if err := l.admit(rt, w, r); err != nil {
		l.server.metrics.rejected.WithLabelValues(status.Of(err).String()).Inc()
		if status.Of(err) == status.Method {
			rt.allow(w.Header())
		}
		w.LeaveBody(r)
		return err
	}
	defer l.leave(rt, w)
	r, stop, err := budget(rt, r)
	if err == nil {
		r, end := l.paced(rt, w, r)
		if err = l.record(rt, w, r); err == nil {
			err = l.server.deps.Guard.Run(func() error { return rt.answer(&w.Response, r) })
		}
		err = w.Because(r.Context(), err)
		end()
		stop()
	}
	if err == nil {
		return nil
	}
	if rt.streams {
		l.server.metrics.refuse(status.Of(err))
	}
	if !w.Started() {
		w.LeaveBody(r)
	}
	return err
}

// paced makes a body that a handler reads by itself keep coming; uploads ask for
// that when they begin to read. On a Unix socket it may wait for its own input.
func (l *listener) paced(rt route, w *delivery, r *http.Request) (*http.Request, func()) {
	if !rt.streams || rt.upload || l.patient {
		return r, func() {}
	}
	b := l.server.deps.Bodies.Open(&w.Response, r)
	read := *r // net/http looks at the body of its own request
	read.Body = io.NopCloser(b)
	return &read, b.End
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
		return r, nil, status.Errorf(status.BadRequest, "Request-Timeout is %q, want seconds", exchange.Clip(strings.Join(values, ", ")))
	}
	ctx, stop := context.WithTimeoutCause(r.Context(), time.Duration(min(d, 3600)*float64(time.Second)),
		status.Errorf(status.Timeout, "%s: it was not done within the Request-Timeout of %s s", rt.name, exchange.Clip(values[0])))
	return r.WithContext(ctx), stop, nil
}

// finish answers an error that came before the first byte, and reports whether
// the connection has to be cut because it came later.
func (l *listener) finish(w *delivery, r *http.Request, err error) (cut bool) {
	if err == nil {
		return w.Short()
	}
	if !w.Started() {
		w.Problem(r, err, l.discreet)
		return false
	}
	if w.Failed == nil && status.Of(err) != status.Canceled {
		l.server.metrics.cut.Inc()
	}
	return true
}

// access logs a request: failures, and slow starts where nobody is patient, as
// warnings, the rest for debugging. Addresses are logged by 8 digits, paths and
// peers not at all.
func (l *listener) access(w *delivery, r *http.Request, name string, start time.Time, took time.Duration, err error, cut bool) {
	level := slog.LevelDebug
	firstByte := w.First.Sub(start)
	gone := w.Failed != nil || status.Of(err) == status.Canceled
	bad := w.Status >= http.StatusInternalServerError && err != nil && !ordinary(err) || cut // no error: readyz says no
	slow := firstByte > l.server.cfg.SlowRequest && !l.patient
	if !gone && (bad || slow) {
		level = slog.LevelWarn
	}
	log := l.server.deps.Log
	if !log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("route", name), slog.String("method", exchange.Clip(r.Method)), slog.Int("status", w.Status),
		slog.Int64("bytes", w.Bytes), slog.Duration("took", took), slog.Duration("first_byte", firstByte),
		slog.String("corr_id", w.Header().Get("X-Corr-ID")),
	}
	if !w.Root.IsZero() {
		attrs = append(attrs, slog.String("b3", w.Root.Hex()[:8]))
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
