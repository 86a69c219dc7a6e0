package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"allium/internal/env"
	"allium/internal/guard"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// request is a queued request of a stream. If refusal is set, it is the answer.
type request struct {
	query
	corr     uint64
	dup      bool // whether an earlier request has the same corr_id
	received time.Time
	refusal  error         // the answer to a request that is not served
	release  func()        // undoes admit; nil for a refused request
	intake   Intake        // of a put that is not refused
	answered chan struct{} // of a put: closed by finish; the stream is not read before
}

// write answers the queued requests in order. It is the only goroutine that writes
// to the stream. If the stream fails, write resets it and empties the queue. ctx
// ends with the stream, run with the server.
func (in *served) write(run, ctx context.Context) {
	defer in.out.release()
	failed := false
	for req := range in.queue {
		if !failed {
			if err := in.answer(ctx, req); err != nil {
				failed = true
				op := env.TimeoutObjectWrite
				if s := (*streamError)(nil); errors.As(err, &s) && s.reading {
					op = env.TimeoutObjectRead
				}
				in.srv.fail(in.st, op, err)
			}
		}
		if failed && req.release != nil && run.Err() != nil {
			in.srv.metrics.aborted.Inc()
		}
		in.finish(req)
	}
}

func (in *served) finish(req *request) {
	in.answered.Store(int64(time.Since(in.opened)))
	in.waiting.Add(-1)
	if req.release != nil {
		req.release()
	}
	if req.answered != nil {
		close(req.answered)
	}
}

// answer writes the whole answer to req. It returns errors of the stream only.
func (in *served) answer(ctx context.Context, req *request) error {
	in.out.limit(in.srv.deps.MaxFrame(in.st.Conn()))
	if err := in.serve(ctx, req); err != nil {
		return err
	}
	if !req.dup {
		in.mu.Lock()
		delete(in.corr, req.corr) // before the peer sees the end and may reuse the corr_id
		in.mu.Unlock()
	}
	return in.out.flush()
}

// serve writes the refusal of req, or takes a serving permit and serves req.
func (in *served) serve(ctx context.Context, req *request) (err error) {
	if req.refusal != nil {
		return in.end(ctx, req, req.refusal)
	}
	defer func() {
		in.srv.metrics.latency.WithLabelValues("server", req.op).Observe(time.Since(req.received).Seconds())
	}()
	ctx, span := in.srv.deps.Tracer.Accept(ctx, spanName(req.op), req.trace)
	span.Number("allium.objects", int64(len(req.objs)))
	defer func() { span.End(err) }()
	if req.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, req.received.Add(req.timeout))
		defer cancel()
	}
	release, err := in.permit(ctx, in.srv.bounds.gateOf(req))
	if err != nil {
		return in.end(ctx, req, err)
	}
	defer release()
	serve := in.get
	switch req.op {
	case opHave:
		serve = in.have
	case opPut:
		serve = in.put
	}
	g := guard.Guard{Log: in.srv.log, Err: errStreamPanicked}
	return g.Run("serving an object request panicked", func() error { return serve(ctx, req) },
		func() []any { return []any{"op", req.op} })
}

// spanName names the span of a request on the side that serves it.
func spanName(op string) string {
	switch op {
	case opGet:
		return "serve get"
	case opHave:
		return "serve have"
	default:
		return "serve put"
	}
}

// errPanicked ends the stream of a request whose serving panicked.
var errPanicked = status.Errorf(status.Internal, "the request panicked")

var errStreamPanicked = &streamError{err: errPanicked}

// permit waits for a permit of gate, at most PermitWait. The caller must call the
// returned function when it is done. The error is busy if there is no permit.
func (in *served) permit(ctx context.Context, gate *limits.Gate) (func(), error) {
	waiting, cancel := context.WithTimeout(ctx, in.out.cfg.PermitWait)
	defer cancel()
	release, err := gate.Acquire(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return gate.TryAcquire()
	}
	return release, err
}

// get answers the objects in request order (OAP1.md §9).
func (in *served) get(ctx context.Context, req *request) error {
	for i, root := range req.objs {
		last := i == len(req.objs)-1
		err := in.object(ctx, req, root)
		if isStreamError(err) {
			return err
		}
		o := status.Of(err)
		switch o {
		case status.Corrupt:
			in.srv.log.Error("a stored object is damaged", "obj", root, "err", err)
			if in.srv.deps.Corrupt != nil {
				in.srv.deps.Corrupt(root, err)
			}
		case status.Internal:
			in.srv.log.Error("cannot serve an object", "obj", root, "err", err)
		}
		if err != nil && (last || ofRequest(o)) {
			return in.end(ctx, req, err)
		}
		in.countOutcome(req, o)
		code, payload := codeOf(o), []byte(nil)
		if err != nil {
			code, payload = report(err)
		}
		flags := oap.Flags(0)
		if last {
			flags = oap.FlagEnd
		}
		if err := in.out.frame(respond(req.corr, flags, code, payload)); err != nil {
			return err
		}
	}
	return nil
}

// have answers with one byte for each object, its b3.Presence, and for the groups that were asked for of one that is
// here in part, with a bit for each.
func (in *served) have(ctx context.Context, req *request) error {
	present, err := in.srv.deps.Store.Presence(ctx, req.objs)
	if err == nil && len(present) != len(req.objs) {
		err = fmt.Errorf("the store answered for %d of %d objects", len(present), len(req.objs))
	}
	var groups []byte
	if err == nil && present[0] == b3.Partial && req.groups[1] > 0 {
		groups, err = held(ctx, in.srv.deps.Store, req.objs[0], req.groups[0], req.groups[1])
	}
	if err == nil {
		err = in.out.reserve(ctx)
	}
	switch {
	case isStreamError(err):
		return err
	case err != nil:
		if status.Hidden(err) {
			in.srv.log.Error("cannot answer a have request", "err", err)
		}
		return in.end(ctx, req, err)
	}
	in.countOutcome(req, status.OK)
	in.scratch = in.scratch[:0]
	for _, p := range present {
		in.scratch = append(in.scratch, byte(p))
	}
	in.scratch = append(in.scratch, groups...)
	return in.out.frame(respond(req.corr, oap.FlagEnd, codeOf(status.OK), in.scratch))
}

// held returns a bit for each of the groups [from, to) of an object that is here in part, the lowest bit first,
// without the zero bytes at the end. There are none when the object has gone meanwhile.
func held(ctx context.Context, store Store, root b3.Root, from, to int64) (groups []byte, err error) {
	obj, err := store.OpenObject(ctx, root)
	switch {
	case status.Of(err) == status.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	}
	groups = make([]byte, (to-from+7)/8)
	mark(obj, groups, from, from, min(to, b3.Groups(obj.Size())))
	return bytes.TrimRight(groups, "\x00"), obj.Close()
}

// mark sets the bits of the groups [lo, hi) that obj covers. The first bit is that of group from.
func mark(obj Object, groups []byte, from, lo, hi int64) {
	switch {
	case lo >= hi:
	case obj.Covers(lo*b3.GroupSize, min(hi*b3.GroupSize, obj.Size())):
		for g := lo - from; g < hi-from; g++ {
			groups[g/8] |= 1 << (g % 8)
		}
	case hi-lo > 1:
		mid := lo + (hi-lo)/2
		mark(obj, groups, from, lo, mid)
		mark(obj, groups, from, mid, hi)
	}
}

// end answers RESP|END with err. If ctx is canceled, the stream has ended and end
// writes nothing.
func (in *served) end(ctx context.Context, req *request, err error) error {
	if ctx.Err() == context.Canceled {
		return &streamError{err: ctx.Err()}
	}
	in.countOutcome(req, status.Of(err))
	code, payload := report(err)
	return in.out.frame(respond(req.corr, oap.FlagEnd, code, payload))
}

// countOutcome counts the outcome of a have or of one object of a get.
func (in *served) countOutcome(req *request, o status.Outcome) {
	op := req.op
	if op == "" {
		op = "none"
	}
	in.srv.metrics.outcomes.WithLabelValues("server", op, o.String()).Inc()
}
