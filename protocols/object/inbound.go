package object

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/deadline"
	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// served is one served stream. One goroutine reads it (read), another writes it
// (write), and queue connects them.
type served struct {
	srv   *Server
	st    network.Stream
	from  peer.ID
	near  bool          // the peer is in the local network
	group ipgroup.Group // IP group of the connection; empty: none
	peer  *servedPeer
	out   *output // used by write only, but for its cfg

	queue    chan *request
	requests *requestReader // used by read, and by write while read waits for a put
	waiting  atomic.Int64   // requests read but not answered
	opened   time.Time
	answered atomic.Int64 // when the last answer ended, in nanoseconds after opened

	mu   sync.Mutex          // lock: leaf
	corr map[uint64]struct{} // corr_ids of requests read but not answered

	scratch []byte     // used by write only
	given   []b3.Range // of the current object, what was sent; used by write only, and only for ServerDeps.Sent
}

// serve reads requests until the stream ends. It returns when all requests are
// answered and the writing goroutine has ended.
func (s *Server) serve(run context.Context, st network.Stream, group ipgroup.Group) {
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	from, cfg := st.Conn().RemotePeer(), s.cfg.Load()
	in := &served{
		srv: s, st: st, from: from, near: IsNear(st.Conn()), group: group,
		peer: s.peers.enter(from), opened: time.Now(),
		queue: make(chan *request, cfg.Pipeline), // bound: Params.Pipeline; when full, the stream is not read
		corr:  make(map[uint64]struct{}, cfg.Pipeline),
	}
	defer s.peers.leave(from)
	in.out = newOutput(st, cfg, in.peer.egress, s.bounds.egress)

	stop := resetWhenDone(ctx, st, network.StreamShutdown) // wakes both goroutines
	var writer sync.WaitGroup
	writer.Go(func() { in.write(run, ctx) })
	in.read(ctx, cancel)
	close(in.queue)
	writer.Wait()
	stop()
	_ = st.Close()
}

// read decodes requests into the queue. At the regular end of the stream, the queued
// requests are still answered. If the stream fails, read resets it and calls cancel,
// which stops the current answer.
func (in *served) read(ctx context.Context, cancel context.CancelFunc) {
	cfg := in.out.cfg
	rate := deadline.NewMinRate(cfg.ReadTimeout, int64(cfg.MinRate))
	r := &requestReader{in: in, stream: deadline.NewReader(in.st, rate)}
	in.requests = r
	r.frames = oap.NewReader(r, oap.MaxFrame)
	r.frames.SetCheck(startsRequest)
	evicted := func(err error) { in.srv.fail(in.st, env.TimeoutObjectRead, err) }
	memory := in.srv.deps.Inbound.Open(ctx, in.st.Conn(), evicted, r.stream.Pause)
	r.frames.SetMemory(memory)
	defer memory.Close()
	defer r.frames.Release()
	for {
		r.stream.Rest()
		r.frames.SetMaxFrame(in.srv.deps.MaxFrame(in.st.Conn()))
		f, err := r.frames.Next()
		if err == nil {
			err = in.enqueue(ctx, f)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			return
		}
		in.srv.fail(in.st, env.TimeoutObjectRead, err)
		cancel()
		return
	}
}

// startsRequest returns an error for a header that is not the header of a request,
// before the rest of the frame is read (OAP1.md §13.13).
func startsRequest(h oap.Header) error {
	switch {
	case h.Flags.IsAck():
		return oap.Refuse(oap.ReasonCreditViolation, "an ACK, but no frame had ACK_REQ")
	case !h.Flags.Has(oap.FlagReq | oap.FlagStart):
		return oap.Refuse(oap.ReasonBadFlags, "flags %s where a request must start", h.Flags)
	}
	return nil
}

// fail resets a stream after op ended with err.
func (s *Server) fail(st network.Stream, op string, err error) {
	code := network.StreamNoError
	var bad *oap.DecodeError
	var reset *network.StreamError
	switch {
	case errors.As(err, &reset) && !reset.Remote: // the other goroutine reset it with its own code
		return
	case errors.Is(err, context.Canceled): // the server stops
		code = network.StreamShutdown
	case errors.Is(err, errIdle):
		code = network.StreamGarbageCollected
	case errors.As(err, &bad):
		s.metrics.rejected.WithLabelValues(bad.Reason.String()).Inc()
		code = network.StreamErrorCode(bad.StreamErrorCode())
	case errors.Is(err, errPanicked):
		code = codeInternal
	case status.Of(err) == status.Busy: // no memory for a frame, or its memory was taken for another one
		code = network.StreamResourceLimitExceeded
	case status.Of(err) == status.Timeout:
		s.metrics.timeouts.WithLabelValues(op).Inc()
		code = codeTimeout
	}
	_ = st.ResetWithError(code)
}

// errIdle ends a stream that had no request for IdleTimeout.
var errIdle = status.Errorf(status.Timeout, "the stream is idle")

// requestReader reads requests with different deadlines. Between frames it waits for
// IdleTimeout, but for ReadTimeout or RepairPause if the items of a put follow. While an answer is in progress it
// waits without a limit. Within a frame the peer must keep to ReadTimeout and MinRate.
type requestReader struct {
	in     *served
	stream deadline.Reader // its clock runs from the first byte of a frame to the last
	frames *oap.Reader
	put    time.Duration // how long the items of a put that follow may stay away; 0: none follow
}

// Read implements [io.Reader].
func (r *requestReader) Read(p []byte) (int, error) {
	now := time.Now()
	cfg := r.in.out.cfg
	var end time.Time
	switch {
	case r.frames.Buffered() > 0:
		end = r.stream.Until(now)
	case r.put > 0:
		end = now.Add(r.put)
	default:
		return r.idle(p, now)
	}
	n, err := r.stream.ReadUntil(p, now, end)
	if errors.Is(err, deadline.ErrPassed) {
		err = tooSlow("read request", cfg, cfg.ReadTimeout)
	}
	return n, err
}

// idle reads the first bytes of a frame.
func (r *requestReader) idle(p []byte, now time.Time) (int, error) {
	for since := now; ; now = time.Now() {
		if r.in.waiting.Load() > 0 {
			since = now
		} else if last := r.in.opened.Add(time.Duration(r.in.answered.Load())); last.After(since) {
			since = last
		}
		end := since.Add(r.in.out.cfg.IdleTimeout)
		if !end.After(now) {
			return 0, errIdle
		}
		if n, err := r.stream.ReadUntil(p, now, end); !errors.Is(err, deadline.ErrPassed) {
			return n, err
		}
	}
}

// enqueue queues the request in f, or its refusal. After a put it returns when the put is
// answered. An error ends the stream.
func (in *served) enqueue(ctx context.Context, f oap.Frame) error {
	const whole = oap.FlagReq | oap.FlagStart | oap.FlagEnd
	payload, err := f.Inflated(in.srv.deps.Codec, in.srv.deps.MaxFrame(in.st.Conn()))
	if err != nil {
		return err
	}
	req := &request{corr: f.CorrID, received: time.Now()}
	in.mu.Lock()
	_, dup := in.corr[f.CorrID]
	if !dup {
		in.corr[f.CorrID] = struct{}{}
	}
	in.mu.Unlock()
	switch {
	case dup:
		req.dup = true
		req.refusal = in.refuse(oap.ReasonDupCorr, "corr_id %d", f.CorrID)
	case f.Proto != oap.ProtoObject:
		req.refusal = in.refuse(oap.ReasonUnknownProto, "app_proto_id %d", f.Proto)
	case f.Flags&^(whole|oap.FlagComp) != 0:
		req.refusal = status.Errorf(status.Unsupported, "flags %s on a request", f.Flags)
	default:
		in.decode(ctx, req, f, payload)
	}
	if req.refusal == nil {
		req.release, req.refusal = in.admit()
	}
	if req.refusal != nil {
		req.query, req.intake = query{op: req.op}, nil
	}
	if req.intake != nil {
		req.answered = make(chan struct{})
	}
	in.waiting.Add(1)
	in.queue <- req
	if req.intake != nil {
		<-req.answered
	}
	return nil
}

// refuse counts a rejected frame and returns the error to answer it with. The stream
// continues.
func (in *served) refuse(r oap.Reason, format string, args ...any) error {
	in.srv.metrics.rejected.WithLabelValues(r.String()).Inc()
	return oap.Refuse(r, format, args...)
}

// decode fills req from the frame and its payload, or its refusal. It verifies the
// capability of a put.
func (in *served) decode(ctx context.Context, req *request, f oap.Frame, payload []byte) {
	req.query, req.refusal = decodeQuery(payload)
	req.repair = req.op == opPut && f.Code&codeRepair != 0
	switch end := f.Flags.Has(oap.FlagEnd); {
	case req.refusal != nil:
	case req.op == opPut && in.srv.deps.Receiver == nil:
		req.refusal = status.Errorf(status.Unsupported, "op %q is not served here", opPut)
	case req.op == opPut && end:
		req.refusal = status.Errorf(status.BadRequest, "a put must not end with its first frame")
	case req.op != opPut && !end:
		req.refusal = status.Errorf(status.BadRequest, "a %s must be one frame", req.op)
	case req.op == opPut:
		ctx, cancel := context.WithTimeout(ctx, in.out.cfg.PermitWait)
		defer cancel()
		offer := &Offer{From: in.st.Conn(), Objs: req.objs, Sizes: req.sizes, Many: req.many, About: req.about}
		req.intake, req.refusal = in.srv.deps.Receiver.Authorize(ctx, f.Cap, offer)
	}
}

// admit counts a request against its peer and its IP group before it may wait. The
// error is busy or draining. The caller must call release after the answer.
func (in *served) admit() (release func(), err error) {
	leave, err := in.peer.inflight.TryAcquire()
	if err != nil {
		return nil, err
	}
	if err := in.srv.bounds.asking.Enter(in.group); err != nil {
		leave()
		return nil, busy(err)
	}
	if err := in.srv.admit(); err != nil {
		in.srv.bounds.asking.Leave(in.group)
		leave()
		return nil, err
	}
	return func() {
		in.srv.bounds.asking.Leave(in.group)
		leave()
		in.srv.done()
	}, nil
}

// busy changes the outcome quota of a limit to busy, which SPEC §2 requires.
func busy(err error) error {
	var e *status.Error
	if errors.As(err, &e) {
		e.Outcome = status.Busy
	}
	return err
}
