package tracing

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"allium/protocols/status"
)

// Span is one piece of work of a trace. Its methods may be called from any goroutine; a nil Span does nothing.
type Span struct {
	tracer *Tracer
	trace  [16]byte
	id     [8]byte
	parent [8]byte // zero: the span begins the trace
	name   string
	start  time.Time
	remote bool // a peer asked for it

	mu      sync.Mutex // lock: leaf
	end     time.Time  // zero: it runs
	attrs   []attr
	outcome status.Outcome
}

// attr is a text or, if text is empty, a number.
type attr struct {
	key, text string
	number    int64
}

func (s *Span) child(name string) *Span {
	return &Span{
		tracer: s.tracer, trace: s.trace, parent: s.id, id: newSpanID(), name: name, start: time.Now(),
		remote: s.remote,
	}
}

// Child begins a span below s, which is nil for a nil s.
func (s *Span) Child(name string) *Span {
	if s == nil {
		return nil
	}
	return s.child(name)
}

// Past adds a span below s that began at start and took so long.
func (s *Span) Past(name string, start time.Time, took time.Duration, outcome status.Outcome) {
	if s == nil {
		return
	}
	c := s.child(name)
	c.start = start
	c.finish(start.Add(took), outcome)
}

// Text sets an attribute. It must be one of a closed list, or an ID that says nothing of what was asked for.
func (s *Span) Text(key, value string) { s.set(attr{key: key, text: value}) }

// Number sets an attribute.
func (s *Span) Number(key string, value int64) { s.set(attr{key: key, number: value}) }

func (s *Span) set(a attr) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.attrs) < maxAttrs && s.end.IsZero() {
		s.attrs = append(s.attrs, a)
	}
}

// Traceparent returns what a request to a peer carries, by W3C's Trace Context; empty for a nil Span.
func (s *Span) Traceparent() string {
	if s == nil {
		return ""
	}
	return "00-" + hex.EncodeToString(s.trace[:]) + "-" + hex.EncodeToString(s.id[:]) + "-01"
}

// Traceparent returns the traceparent of the span of ctx; empty without one.
func Traceparent(ctx context.Context) string { return Of(ctx).Traceparent() }

// End ends the span and hands it to the tracer. It never waits. Only the outcome of err is sent.
func (s *Span) End(err error) {
	if s != nil {
		s.finish(time.Now(), status.Of(err))
	}
}

// EndAs is End for an outcome.
func (s *Span) EndAs(o status.Outcome) {
	if s != nil {
		s.finish(time.Now(), o)
	}
}

func (s *Span) finish(at time.Time, o status.Outcome) {
	s.mu.Lock()
	again := !s.end.IsZero()
	if !again {
		s.end, s.outcome = at, o
	}
	s.mu.Unlock()
	if again {
		return
	}
	t := s.tracer
	if s.remote && len(t.queue) >= maxQueued/2 {
		t.fates.WithLabelValues(string(queueFull)).Inc()
		return
	}
	select {
	case t.queue <- s:
	default:
		t.fates.WithLabelValues(string(queueFull)).Inc()
	}
}
