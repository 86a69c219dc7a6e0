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
	"allium/gateway/server/conns"
	"allium/internal/patience"
	"allium/protocols/status"
)

// ServeHTTP serves every request of the listener: it finds the route, admits the request, runs
// the handler, and logs and records the result.
func (l *listener) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	if !l.server.handlers.Enter() {
		panic(http.ErrAbortHandler) // the server has closed, and an HTTP/2 connection is left over
	}
	defer l.server.handlers.Leave()
	c := conns.Of(r)
	if !c.Begin() {
		panic(http.ErrAbortHandler) // the connection was evicted
	}
	defer c.End()
	now := l.server.live.Load()
	rt, r, prefix, told := find(l, now, r)
	name := rt.name
	if rt.serve == nil {
		name = noRoute
	}
	w := l.newDelivery(rt, hw, r)
	w.From = now.proxies.originOf(r)
	w.Prefix, w.asked.prefix = prefix, told
	if l.hideInternal {
		w.asked.origins, w.asked.origin = now.origins, r.Header.Get("Origin")
	}
	w.CorrID = corrID(r)
	w.Pages = l.pagesOf(rt)
	h := w.Header()
	h["X-Corr-Id"] = w.HeaderValue(w.CorrID)
	h["X-Content-Type-Options"] = noSniff
	h["Referrer-Policy"] = noReferrer
	if l.hsts != "" {
		h.Set("Strict-Transport-Security", l.hsts)
	}
	if len(r.TransferEncoding) > 0 && !l.trustsClients || !r.ProtoAtLeast(1, 1) {
		// The end of this body may be ambiguous: a request may have both Content-Length and
		// Transfer-Encoding, and net/http ignores Transfer-Encoding in HTTP/1.0 (RFC 9112 §6.1,
		// §6.3). So the connection closes, and no later bytes are taken for a request.
		h["Connection"] = closing
	}
	if rt.events {
		l.server.bounds.events.add(c)
		defer l.server.bounds.events.remove(c)
	}
	w.watch()
	defer w.places.transfer.Unwatch()
	w.renewDeadline() // the deadline of the connection's last request must not end this one

	m := l.server.metrics.route(name)
	m.inflight.Inc()
	start := time.Now()
	w.cost.began = start
	err := l.answer(rt, w, r)
	m.inflight.Dec()
	took := time.Since(start)
	m.latency.Observe(took.Seconds())

	if err != nil && l.hideInternal {
		l.server.metrics.refuse(status.Of(err))
	}
	cut := l.finish(w, r, err) || w.places.evicted
	l.logAccess(w, r, name, start, took, err, cut)
	l.recordOutcome(rt, w, r, err)
	if cut {
		panic(http.ErrAbortHandler) // resets the stream or connection: the client must not take a part for the whole
	}
	if !w.Started() {
		w.passHeader()
	}
	l.server.linger(w, r)
}

// Header values of every answer, which no handler modifies.
var (
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	closing    = []string{"close"}
)

// answer admits the request and runs its handler. It returns a panic as an error.
func (l *listener) answer(rt route, w *delivery, r *http.Request) (err error) {
	timed, stop, timeoutErr := l.applyRequestTimeout(rt, r)
	defer stop()
	if err := l.admit(rt, w, timed); err != nil {
		l.server.metrics.rejected.WithLabelValues(status.Of(err).String()).Inc()
		if status.Of(err) == status.Method {
			rt.allow(w.Header())
		}
		w.AbandonBody(r)
		return err
	}
	defer func() {
		if w.places.share != nil && w.cheap(rt, r, err) {
			w.places.share.Refund()
		}
		l.leave(rt, w)
	}()
	r = timed
	if rt.upload {
		ctx, span := l.server.deps.Tracer.Begin(r.Context(), "upload")
		defer func() { span.End(err) }()
		r = r.WithContext(ctx)
	}
	if err = timeoutErr; err == nil {
		r, end := l.withBodyDeadlines(rt, w, r)
		if err = l.recordMutation(rt, w, r); err == nil {
			err = l.server.deps.Guard.Run(func() error { return serveRoute(l, rt, w, r) })
		}
		err = w.Cause(r.Context(), err)
		end()
	}
	if err == nil {
		return nil
	}
	if !w.Started() {
		w.AbandonBody(r)
	}
	return err
}

// withBodyDeadlines returns r with a body that has a deadline for each read, for handlers that
// read r.Body themselves. Uploads open their body later. On the socket a body has no deadline,
// because the client may wait for its own input. The caller calls stop after the handler.
func (l *listener) withBodyDeadlines(rt route, w *delivery, r *http.Request) (*http.Request, func()) {
	if !rt.takesBody || rt.upload || l.noTimeouts {
		return r, func() {}
	}
	b := l.server.deps.Bodies.Open(&w.Response, r)
	read := *r // net/http still uses the body of r
	read.Body = io.NopCloser(b)
	return &read, b.Stop
}

// applyRequestTimeout ends the request's context after its Request-Timeout, in seconds, at
// most an hour on a public listener. The node's own timeouts apply beside it. Work for the local API that has begun
// waits for sources that are gone.
func (l *listener) applyRequestTimeout(rt route, r *http.Request) (*http.Request, context.CancelFunc, error) {
	if !l.hideInternal && !rt.exempt {
		r = r.WithContext(patience.With(r.Context()))
	}
	most := time.Hour.Seconds()
	if !l.hideInternal {
		most = maxOwnTimeout.Seconds()
	}
	values := r.Header["Request-Timeout"]
	if len(values) == 0 || rt.exempt {
		return r, func() {}, nil
	}
	d, err := strconv.ParseFloat(values[0], 64)
	if err != nil || !(d > 0) || len(values) > 1 {
		return r, func() {}, status.Errorf(status.BadRequest, "Request-Timeout is %q. Set it to a number of seconds",
			exchange.Clip(strings.Join(values, ", ")))
	}
	ctx, stop := context.WithTimeoutCause(r.Context(), time.Duration(min(d, most)*float64(time.Second)),
		status.Errorf(status.Timeout, "the request timed out: the route %s did not finish within the "+
			"Request-Timeout of %s s. Send a longer Request-Timeout", rt.name, exchange.Clip(values[0])))
	return r.WithContext(ctx), stop, nil
}

// maxOwnTimeout bounds a Request-Timeout of the local API. It is far from the largest time.Duration.
const maxOwnTimeout = 365 * 24 * time.Hour

// finish sends the problem of an error before the first byte. It reports whether the
// connection must be cut, because the error came later or the body is too short.
func (l *listener) finish(w *delivery, r *http.Request, err error) (cut bool) {
	if err == nil {
		return w.Short()
	}
	if !w.Started() {
		w.Problem(r, err, l.hideInternal)
		return false
	}
	if w.Failed == nil && status.Of(err) != status.Canceled {
		l.server.metrics.cut.Inc()
	}
	return true
}

// logAccess logs a request: as a warning if it failed inside the node or started slowly, else
// at debug level. On the socket no request is slow. It logs the first 8 digits of an address,
// and never paths or peers.
func (l *listener) logAccess(
	w *delivery, r *http.Request, name string, start time.Time, took time.Duration, err error, cut bool,
) {
	level := slog.LevelDebug
	firstByte := w.First.Sub(start)
	gone := w.Failed != nil || status.Of(err) == status.Canceled
	// A readyz that says no has a 5xx status and no error.
	bad := w.Status >= http.StatusInternalServerError && err != nil && !expectedFailure(err) || cut
	slow := firstByte-w.cost.waited > l.server.cfg.SlowRequest && !l.noTimeouts
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
	if id := lookupOf(w, err); id != "" {
		attrs = append(attrs, slog.String("lookup_id", id))
	}
	if err != nil {
		attrs = append(attrs, slog.String("reason", status.Of(err).String()), slog.String("err", err.Error()))
	}
	log.LogAttrs(r.Context(), level, "http request", attrs...)
}

// lookupOf returns the lookup that err names, or else the one that found what was requested, or the
// empty string.
func lookupOf(w *delivery, err error) string {
	if id := status.LookupOf(err); id != "" {
		return id
	}
	return w.LookupID.String()
}

// expectedFailure reports whether err is a 5xx without a fault of the node: it is draining, its configuration does not
// permit the request, or another server failed, which every client of its files would repeat.
func expectedFailure(err error) bool {
	switch status.Of(err) {
	case status.Draining, status.Amnesia, status.Upstream, status.EtagInvalid, status.BreakerOpen:
		return true
	}
	return false
}

// corrID returns the request's X-Corr-ID if it is a plain token of up to 64 characters, else
// a new one of 16 hex digits.
func corrID(r *http.Request) string {
	given := r.Header["X-Corr-Id"] // net/http's canonical form
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
