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
	"allium/internal/ipgroup"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// served is one served stream: read in the goroutine of serve, written in the
// one of write, joined by a queue.
type served struct {
	srv   *Server
	st    network.Stream
	from  peer.ID
	group ipgroup.Group // of the connection; empty: none
	peer  *servedPeer
	out   *output // the writer's

	queue    chan *request
	waiting  atomic.Int64 // requests read and not yet answered
	opened   time.Time
	answered atomic.Int64 // when the last answer ended, in nanoseconds after opened

	mu   sync.Mutex
	corr map[uint64]struct{} // of requests read and not yet answered

	scratch []byte // the writer's
}

// serve reads requests until the stream ends, and returns when they are
// answered and the writer is gone.
func (s *Server) serve(run context.Context, st network.Stream, group ipgroup.Group) {
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	from := st.Conn().RemotePeer()
	in := &served{
		srv: s, st: st, from: from, group: group, peer: s.peers.enter(from), opened: time.Now(),
		queue: make(chan *request, s.cfg.Pipeline), // bound: Config.Pipeline; when full the stream is not read
		corr:  make(map[uint64]struct{}, s.cfg.Pipeline),
	}
	defer s.peers.leave(from)
	in.out = newOutput(st, &s.cfg, in.peer.egress, s.egress)

	stop := resetWhenDone(ctx, st, network.StreamShutdown) // wakes both sides
	var writer sync.WaitGroup
	writer.Go(func() { in.write(run, ctx) })
	in.read(ctx, cancel)
	close(in.queue)
	writer.Wait()
	stop()
	_ = st.Close()
}

// read decodes requests into the queue. When the stream failed it resets it,
// cancel stopping the answer under way; at its orderly end the queue is still
// answered.
func (in *served) read(ctx context.Context, cancel context.CancelFunc) {
	cfg := &in.srv.cfg
	r := &requestReader{in: in, timed: deadline.NewReader(in.st, deadline.NewMinRate(cfg.ReadTimeout, int64(cfg.MinRate)))}
	r.frames = oap.NewReader(r, oap.MaxFrame)
	r.frames.SetCheck(startsRequest)
	memory := in.srv.deps.Inbound.Open(ctx, in.st.Conn(), func(err error) { in.srv.fail(in.st, "read", err) }, r.timed.Pause)
	r.frames.SetMemory(memory)
	defer memory.Close()
	defer r.frames.Release()
	for {
		r.timed.Rest()
		r.frames.SetMaxFrame(in.srv.deps.MaxFrame(in.st.Conn()))
		f, err := r.frames.Next()
		if err == nil {
			err = in.take(f)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			return
		}
		in.srv.fail(in.st, "read", err)
		cancel()
		return
	}
}

// startsRequest refuses what is no request by its header, before the rest of the
// frame is read (OAP1.md §13.13).
func startsRequest(h oap.Header) error {
	switch {
	case h.Flags.IsAck():
		return oap.Refuse(oap.ReasonCreditViolation, "nothing was sent with ACK_REQ")
	case !h.Flags.Has(oap.FlagReq | oap.FlagStart):
		return oap.Refuse(oap.ReasonBadFlags, "flags %s where a request starts", h.Flags)
	}
	return nil
}

// fail resets a stream because of err, with which op ended.
func (s *Server) fail(st network.Stream, op string, err error) {
	code := network.StreamNoError
	var bad *oap.DecodeError
	var reset *network.StreamError
	switch {
	case errors.As(err, &reset) && !reset.Remote: // by the other half, with the code of its reason
		return
	case errors.Is(err, context.Canceled): // of the server's run; when of the stream's, it was reset before
		code = network.StreamShutdown
	case errors.Is(err, errIdle):
		code = network.StreamGarbageCollected
	case errors.As(err, &bad):
		s.metrics.rejected.WithLabelValues(bad.Reason.String()).Inc()
		code = network.StreamErrorCode(bad.StreamErrorCode())
	case errors.Is(err, errPanicked):
		code = codeInternal
	case status.Of(err) == status.Busy: // no bytes for a frame, or it made room
		code = network.StreamResourceLimitExceeded
	case status.Of(err) == status.Timeout:
		s.metrics.timeouts.WithLabelValues(op).Inc()
		code = codeTimeout
	}
	_ = st.ResetWithError(code)
}

// errIdle ends a stream on which nothing was asked for the idle time.
var errIdle = status.Errorf(status.Timeout, "object: the stream is idle")

// requestReader reads with the patience that fits: the idle time between
// frames, for ever while an answer is under way, and inside a frame as long as
// the peer keeps its pace.
type requestReader struct {
	in     *served
	timed  deadline.Reader // its clock runs from the first bytes of a frame to its last
	frames *oap.Reader
}

// Read implements [io.Reader].
func (r *requestReader) Read(p []byte) (int, error) {
	now := time.Now()
	if r.frames.Buffered() == 0 {
		return r.idle(p, now)
	}
	n, err := r.timed.ReadUntil(p, now, r.timed.Until(now))
	if errors.Is(err, deadline.ErrPassed) {
		cfg := &r.in.srv.cfg
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
		end := since.Add(r.in.srv.cfg.IdleTimeout)
		if !end.After(now) {
			return 0, errIdle
		}
		if n, err := r.timed.ReadUntil(p, now, end); !errors.Is(err, deadline.ErrPassed) {
			return n, err
		}
	}
}

// take queues the request in f, or its refusal. A returned error ends the
// stream.
func (in *served) take(f oap.Frame) error {
	const whole = oap.FlagReq | oap.FlagStart | oap.FlagEnd
	payload, err := f.Inflated(in.srv.deps.MaxFrame(in.st.Conn()))
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
		req.refusal = status.Errorf(status.Unsupported, "object: flags %s on a request", f.Flags)
	default:
		in.decode(req, f, payload)
	}
	if req.refusal == nil {
		req.release, req.refusal = in.admit()
	}
	if req.refusal != nil {
		req.query = query{op: req.op}
	}
	in.waiting.Add(1)
	in.queue <- req
	return nil
}

// refuse counts a frame that is answered rather than fatal.
func (in *served) refuse(r oap.Reason, format string, args ...any) error {
	in.srv.metrics.rejected.WithLabelValues(r.String()).Inc()
	return oap.Refuse(r, format, args...)
}

// decode fills req from the frame and its payload, or its refusal.
func (in *served) decode(req *request, f oap.Frame, payload []byte) {
	req.query, req.refusal = decodeQuery(payload)
	if req.refusal == nil && !f.Flags.Has(oap.FlagEnd) {
		req.refusal = status.Errorf(status.BadRequest, "object: a %s is one frame", req.op)
	}
}

// admit takes the places that a request needs before it may wait.
func (in *served) admit() (release func(), err error) {
	leave, err := in.peer.inflight.TryAcquire()
	if err != nil {
		return nil, err
	}
	if err := in.srv.asking.Enter(in.group); err != nil {
		leave()
		return nil, busy(err)
	}
	if err := in.srv.admit(); err != nil {
		in.srv.asking.Leave(in.group)
		leave()
		return nil, err
	}
	return func() {
		in.srv.asking.Leave(in.group)
		leave()
		in.srv.done()
	}, nil
}

// busy turns a limit's quota into the busy that SPEC §2 asks for.
func busy(err error) error {
	var e *status.Error
	if errors.As(err, &e) {
		e.Outcome = status.Busy
	}
	return err
}
