package session

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/tracing"
	"allium/protocols/capability"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Envelope has the members that every request may have (OAP1 §5). The request type of
// a handler embeds it, so that the strict decoding of [Request.Decode] accepts them.
type Envelope struct {
	Op          string `json:"op"`
	DeadlineMS  int64  `json:"deadline_ms"` // how long the caller still waits, in ms; 0: unknown
	Traceparent string `json:"traceparent"` // W3C trace context; may be empty
}

// Request is one request of a peer.
type Request struct {
	Envelope
	Tenant [16]byte // zero: none
	// Grant is the permission of the request's capability, verified for what the protocol says that
	// the request does (see Service.Authorize). Nil: the request has no capability.
	Grant   *capability.Grant
	Payload []byte // the JSON object, at most oap.MaxJSON bytes; the handler may keep it
}

// Decode decodes the payload into v, a struct that embeds [Envelope]. Members that v
// does not have are bad_request.
func (r *Request) Decode(v any) error { return oap.DecodeJSON(r.Payload, v, false) }

// Response is the answer to a request: an error, or a payload of at most the
// negotiated max_frame less the header.
type Response struct {
	Payload []byte
	Err     error // sent as its outcome and message (OAP1 §8)
}

// Handler answers the requests of one application protocol. It runs on one of
// Config.Workers goroutines; ctx ends at the request's deadline and when its
// session ends. A panic is answered with internal.
type Handler func(ctx context.Context, from peer.ID, req *Request) Response

// Counted returns the Handler of a protocol whose requests answer answers. It counts them in the counter of a name,
// by operation and by the outcome of the answer; operations that are not among ops count as other. The error says
// that reg has the counter already.
func Counted(reg prometheus.Registerer, name, help string, ops []string,
	answer func(ctx context.Context, from peer.ID, r *Request) ([]byte, error),
) (Handler, error) {
	results := env.CounterVec(name, help, "op", "result")
	if err := env.Register(reg, results); err != nil {
		return nil, err
	}
	return func(ctx context.Context, from peer.ID, r *Request) Response {
		p, err := answer(ctx, from, r)
		op := r.Op
		if !slices.Contains(ops, op) {
			op = "other"
		}
		results.WithLabelValues(op, status.Of(err).String()).Inc()
		return Response{Payload: p, Err: err}
	}, nil
}

// decodeRequest decodes the request of a frame with the given payload. It copies what
// it keeps, so the frame's buffer may be reused.
func decodeRequest(f oap.Frame, payload []byte) (*Request, error) {
	req := &Request{Tenant: f.Tenant, Payload: payload}
	// DecodeJSON rejects a longer payload, so it needs no copy.
	if len(payload) <= oap.MaxJSON && !f.Flags.Has(oap.FlagComp) {
		req.Payload = append([]byte(nil), payload...)
	}
	if err := oap.DecodeJSON(req.Payload, &req.Envelope, true); err != nil {
		return nil, err
	}
	if req.DeadlineMS < 0 {
		return nil, status.Errorf(status.BadRequest, "deadline_ms is %d: must not be negative", req.DeadlineMS)
	}
	return req, nil
}

// budget returns how long the request may take, at most limit.
func (r *Request) budget(limit time.Duration) time.Duration {
	if r.DeadlineMS == 0 || r.DeadlineMS > limit.Milliseconds() {
		return limit
	}
	return time.Duration(r.DeadlineMS) * time.Millisecond
}

// Traced returns a handler whose requests have spans of that name in t, in the traces that their callers send.
func Traced(t *tracing.Tracer, name string, h Handler) Handler {
	return func(ctx context.Context, from peer.ID, req *Request) Response {
		ctx, span := t.Accept(ctx, name, req.Traceparent)
		r := h(ctx, from, req)
		span.End(r.Err)
		return r
	}
}

// withTrace adds the traceparent of ctx, if it has one, to a request. The request must be a JSON object.
func withTrace(ctx context.Context, payload []byte) []byte {
	tp := tracing.Traceparent(ctx)
	if tp == "" || len(payload) < 2 || payload[0] != '{' {
		return payload
	}
	return withMember(payload, `"traceparent":"`+tp+`"`)
}

// withMember adds a member to a JSON object.
func withMember(payload []byte, member string) []byte {
	p := make([]byte, 0, len(payload)+len(member)+2)
	p = append(p, '{')
	p = append(p, member...)
	if rest := bytes.TrimLeft(payload[1:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		p = append(p, ',')
	}
	return append(p, payload[1:]...)
}

// withDeadline adds deadline_ms, the time left until ctx's deadline, to a request. The
// request must be a JSON object.
func withDeadline(ctx context.Context, payload []byte) []byte {
	end, ok := ctx.Deadline()
	if !ok || len(payload) < 2 || payload[0] != '{' {
		return payload
	}
	ms := max(time.Until(end).Milliseconds(), 1)
	return withMember(payload, `"deadline_ms":`+strconv.FormatInt(ms, 10))
}
