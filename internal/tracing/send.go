package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"allium/internal/limits"
)

// The waits of the sender.
const (
	gather      = 2 * time.Second // between the first span of a batch and the batch
	sendTimeout = 10 * time.Second
	lastTimeout = time.Second // for what waits when the node stops
	leastPause  = time.Second // after a failure; it doubles up to mostPause
	mostPause   = 30 * time.Second
	maxAnswer   = 64 << 10
)

// newClient returns a client that goes to the endpoint alone: through no proxy, and after no redirect.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Run sends spans until ctx ends, and then what waits. While the collector is away it asks it less and less
// often; meanwhile spans wait, and are dropped when there are too many.
func (t *Tracer) Run(ctx context.Context, ready func()) error {
	ready()
	defer t.client.CloseIdleConnections()
	var pause time.Duration
	for {
		batch := t.batch(ctx)
		last := ctx.Err() != nil
		limit, sending := sendTimeout, ctx
		if last {
			limit, sending = lastTimeout, context.WithoutCancel(ctx)
		}
		if len(batch) > 0 {
			err := t.send(sending, batch, limit)
			switch {
			case err == nil:
				pause = 0
			case pause == 0:
				t.log.Warn("spans are dropped: the collector of trace.endpoint does not take them", "err", err)
				pause = leastPause
			default:
				pause = min(2*pause, mostPause)
			}
		}
		if last {
			t.fates.WithLabelValues(string(failed)).Add(float64(len(t.queue))) // there was no time for them
			return nil
		}
		_ = limits.Sleep(ctx, pause) // when ctx has ended, the next batch is the last
	}
}

// batch returns the next spans: those that come within gather of the first. When ctx has ended it returns what
// waits.
func (t *Tracer) batch(ctx context.Context) (all []*Span) {
	var full <-chan time.Time
	for len(all) < maxBatch {
		select {
		case s := <-t.queue:
			if all = append(all, s); full == nil {
				timer := time.NewTimer(gather)
				defer timer.Stop()
				full = timer.C
			}
		case <-full:
			return all
		case <-ctx.Done():
			for len(all) < maxBatch {
				select {
				case s := <-t.queue:
					all = append(all, s)
				default:
					return all
				}
			}
		}
	}
	return all
}

// send sends a batch, and counts its spans by what became of them.
func (t *Tracer) send(ctx context.Context, batch []*Span, limit time.Duration) error {
	lost, err := t.post(ctx, batch, limit)
	if err != nil {
		t.fates.WithLabelValues(string(failed)).Add(float64(len(batch)))
		return err
	}
	t.fates.WithLabelValues(string(rejected)).Add(float64(lost))
	t.fates.WithLabelValues(string(sent)).Add(float64(len(batch) - lost))
	return nil
}

// post sends a batch, and returns how many of its spans the collector says it rejected.
func (t *Tracer) post(ctx context.Context, batch []*Span, limit time.Duration) (lost int, err error) {
	body, err := json.Marshal(t.request(batch))
	if err != nil {
		return 0, fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "allium/"+t.cfg.Version)
	resp, err := t.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return 0, fmt.Errorf("the collector answered %d", resp.StatusCode)
	}
	var answer struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"` // proto3's JSON has 64 bits as text or as a number
		} `json:"partialSuccess"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer) != nil {
		return 0, nil // an empty answer, or none of JSON: the batch was taken
	}
	n, err := answer.PartialSuccess.RejectedSpans.Int64()
	if err != nil {
		n = 0
	}
	return int(min(max(n, 0), int64(len(batch)))), nil
}

// The message of OTLP: opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest, as JSON.
type (
	message struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		Parent     string     `json:"parentSpanId,omitempty"`
		Name       string     `json:"name"`
		Kind       int        `json:"kind"`
		Start      string     `json:"startTimeUnixNano"`
		End        string     `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes"`
		Status     code       `json:"status"`
	}
	code struct {
		Code int `json:"code"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text   string `json:"stringValue,omitempty"`
		Number string `json:"intValue,omitempty"` // 64 bits are text in proto3's JSON
	}
)

// The values of enumerations of OTLP.
const (
	kindInternal = 1
	kindServer   = 2
	statusError  = 2
)

// request returns the message with the spans of a batch.
func (t *Tracer) request(batch []*Span) message {
	spans := make([]span, len(batch))
	for i, s := range batch {
		spans[i] = s.encode()
	}
	return message{[]resourceSpans{{
		Resource: resource{[]keyValue{
			{"service.name", value{Text: "allium"}}, {"service.version", value{Text: t.cfg.Version}},
			{"service.instance.id", value{Text: t.cfg.Node}},
		}},
		ScopeSpans: []scopeSpans{{scope{"allium"}, spans}},
	}}}
}

// encode returns a span that has ended.
func (s *Span) encode() span {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := span{
		TraceID: hex.EncodeToString(s.trace[:]), SpanID: hex.EncodeToString(s.id[:]), Name: s.name, Kind: kindInternal,
		Start: nanos(s.start), End: nanos(s.end),
		Attributes: []keyValue{{"allium.outcome", value{Text: s.outcome.String()}}},
	}
	if s.parent != [8]byte{} {
		e.Parent = hex.EncodeToString(s.parent[:])
	}
	if s.remote {
		e.Kind = kindServer
	}
	if !s.outcome.Success() {
		e.Status.Code = statusError
	}
	for _, a := range s.attrs {
		v := value{Text: a.text}
		if a.text == "" {
			v.Number = strconv.FormatInt(a.number, 10)
		}
		e.Attributes = append(e.Attributes, keyValue{a.key, v})
	}
	return e
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
