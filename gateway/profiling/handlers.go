package profiling

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Bounds of a profile.
const (
	MaxSeconds     = 30
	defaultSeconds = 10
	maxBytes       = 32 << 20 // of an execution trace; what is in Go's buffers then still follows
)

// Handlers serve the route of profiles. Their methods may be called from any goroutine.
type Handlers struct {
	gate   *limits.Gate
	second time.Duration
}

// New returns the handlers. A nil registry lists no limits.
func New(r *limits.Registry) *Handlers {
	return &Handlers{
		second: time.Second,
		gate: r.NewGate(limits.Spec{
			Name: "admin.profiles", Path: "admin listener → profiles of the process", Policy: "reject: busy",
		}, 1, 0),
	}
}

// Endpoints returns the route.
func (h *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{{
		ID: "Profile", Name: "api/profile", Path: api.PathPrefix + "profile", Methods: exchange.Posting,
		On: exchange.OnAdmin, Op: capability.Profile, RecordsItself: true,
		Doc: "Returns a profile, or an execution trace, of the process.",
		More: "`go tool pprof` reads the answer, and `go tool trace` that of the kind trace. cpu, mutex, block and " +
			"trace collect for so many seconds; the others show what is now. One is made at a time: another request " +
			"is `busy`. A trace ends before its time when it has 32 MiB.",
		Params: []exchange.Param{
			{Name: "kind", Kind: exchange.TextParam, Of: kindNames(), Doc: "what to collect"},
			{Name: "seconds", Kind: exchange.IntegerParam,
				Doc: "how long to collect, from 1 to 30; 10 if it is missing"},
		},
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaBytes},
			Headers: []string{"Cache-Control"}, Doc: "the profile",
		}},
		Fails: []status.Outcome{status.BadRequest, status.Busy, status.Canceled, status.Timeout},
		Serve: h.profile,
	}}
}

// profile collects a profile and sends it.
func (h *Handlers) profile(w *exchange.Response, r *http.Request, in exchange.Input) error {
	k := kinds[kindIndex(in.Query.Text("kind"))]
	seconds := in.Query.Int("seconds", defaultSeconds)
	if seconds < 1 || seconds > MaxSeconds {
		return status.Errorf(status.BadRequest,
			"cannot collect for %d seconds. Set seconds to a number from 1 to %d", seconds, MaxSeconds)
	}
	leave, err := h.gate.TryAcquire()
	if err != nil {
		return status.Errorf(status.Busy, "another profile is being made: %w. Try again when it has ended", err)
	}
	defer leave()
	e := w.Event("api/profile", r)
	e.Op, e.Detail = string(capability.Profile), k.name
	if err := w.Record(r, e); err != nil {
		return err
	}
	out := &bounded{full: make(chan struct{})}
	if err := k.collect(out, func() error {
		return collecting(r.Context(), time.Duration(seconds)*h.second, out.full)
	}); err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, exchange.MediaBytes, out.bytes())
}

// collecting waits while a profile is collected: for d, until full is closed, or until ctx ends, whose
// error it returns.
func collecting(ctx context.Context, d time.Duration, full <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-full:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// bounded keeps what is written to it, and closes full once that is maxBytes or more. It drops what
// comes after twice that.
type bounded struct {
	full chan struct{}

	mu  sync.Mutex // lock: leaf
	buf bytes.Buffer
	did bool // full is closed
}

// Write implements io.Writer. It never fails and never waits.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	if b.buf.Len() < 2*maxBytes {
		b.buf.Write(p)
	}
	end := !b.did && b.buf.Len() >= maxBytes
	b.did = b.did || end
	b.mu.Unlock()
	if end {
		close(b.full)
	}
	return len(p), nil
}

// bytes returns what was written. Nothing may be written afterwards.
func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Bytes()
}
