package tracing

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The bounds of what waits for the collector.
const (
	maxQueued = 2048
	maxBatch  = 512
	maxAttrs  = 16 // of a span; more are left out
)

// Config says where spans go, and which.
type Config struct {
	Endpoint string  // the URL of the collector for traces
	Ratio    float64 // the share of traces that are sent, from 0 to 1
	Node     string  // names this node to the collector
	Version  string  // of the program
}

// fate says what became of a span.
type fate string

// The fates.
const (
	sent      fate = "sent"
	queueFull fate = "queue_full"
	failed    fate = "failed"   // the collector could not be reached, or refused the batch
	rejected  fate = "rejected" // the collector took the batch without the span
)

// Tracer makes spans. Its methods are safe for concurrent use. A nil Tracer makes none.
type Tracer struct {
	cfg    Config
	log    *slog.Logger
	chosen uint64 // traces whose random number is below it are sent
	queue  chan *Span
	fates  *prometheus.CounterVec
	client *http.Client
}

// New returns a tracer, or nil without an endpoint. Both log and reg may be nil.
func New(cfg Config, log *slog.Logger, reg prometheus.Registerer) *Tracer {
	if cfg.Endpoint == "" {
		return nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Tracer{cfg: cfg, log: log, client: newClient()}
	t.queue = make(chan *Span, maxQueued) // bound: the span is dropped and counted when it is full
	t.chosen = uint64(cfg.Ratio * (1 << 63))
	t.fates = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trace_spans_total",
		Help: "Spans that ended, by what became of them: sent, queue_full, failed (the collector was away or refused " +
			"them), rejected.",
	}, []string{"result"})
	for _, f := range []fate{sent, queueFull, failed, rejected} {
		t.fates.WithLabelValues(string(f))
	}
	if reg != nil {
		reg.MustRegister(t.fates)
	}
	return t
}

// Queued returns how many spans wait for the collector, and how many may.
func (t *Tracer) Queued() (now, most int) {
	if t == nil {
		return 0, maxQueued
	}
	return len(t.queue), maxQueued
}

type spanKey struct{}

// Of returns the span of ctx, or nil.
func Of(ctx context.Context) *Span {
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// With returns ctx with a span; ctx itself for nil.
func With(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, s)
}

// Begin begins a span below that of ctx. Without one it begins a trace, if the sampling chooses it; else it
// returns ctx and nil. The caller ends the span.
func (t *Tracer) Begin(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	s := t.Under(Of(ctx), name)
	return With(ctx, s), s
}

// Under is Begin for a span that is not in a context; parent may be nil.
func (t *Tracer) Under(parent *Span, name string) *Span {
	switch {
	case t == nil:
		return nil
	case parent != nil:
		return parent.child(name)
	case rand.Uint64()>>1 >= t.chosen:
		return nil
	}
	s := &Span{tracer: t, name: name, start: time.Now(), id: newSpanID()}
	binary.BigEndian.PutUint64(s.trace[:], rand.Uint64())
	binary.BigEndian.PutUint64(s.trace[8:], rand.Uint64()|1)
	return s
}

// Child begins a span below that of ctx. Without one it returns ctx and nil, and allocates nothing.
func Child(ctx context.Context, name string) (context.Context, *Span) {
	parent := Of(ctx)
	if parent == nil {
		return ctx, nil
	}
	s := parent.child(name)
	return With(ctx, s), s
}

// Accept begins the span of a request of a peer, whose traceparent says that its trace is sent. It returns
// ctx and nil for another one, and for one that is no traceparent.
func (t *Tracer) Accept(ctx context.Context, name, traceparent string) (context.Context, *Span) {
	if t == nil || traceparent == "" {
		return ctx, nil
	}
	s := &Span{tracer: t, name: name, remote: true, id: newSpanID(), start: time.Now()}
	if !parse(traceparent, &s.trace, &s.parent) {
		return ctx, nil
	}
	return With(ctx, s), s
}

// parse reads a traceparent of W3C's Trace Context, version 00. It reports whether it is one of a trace that is
// sent.
func parse(text string, trace *[16]byte, span *[8]byte) bool {
	if len(text) != len(*trace)*2+len(*span)*2+7 || text[:3] != "00-" || text[35] != '-' || text[52] != '-' {
		return false
	}
	var flags [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{trace[:], text[3:35]}, {span[:], text[36:52]}, {flags[:], text[53:]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return false
		}
	}
	return *trace != [16]byte{} && *span != [8]byte{} && flags[0]&1 == 1
}

func newSpanID() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
