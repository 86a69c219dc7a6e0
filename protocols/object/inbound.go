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

	"allium/protocols/oap"
	"allium/protocols/status"
	"allium/protocols/timed"
)

// inbound is one served stream: read in the goroutine of serve, written in the
// one of write, joined by a queue.
type inbound struct {
	srv  *Server
	st   network.Stream
	from peer.ID
	peer *servedPeer
	out  *output // the writer's

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
func (s *Server) serve(run context.Context, st network.Stream) {
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	from := st.Conn().RemotePeer()
	in := &inbound{
		srv: s, st: st, from: from, peer: s.peers.enter(from), opened: time.Now(),
		queue: make(chan *request, s.cfg.Pipeline), // bound: Config.Pipeline; when full the stream is not read
		corr:  make(map[uint64]struct{}, s.cfg.Pipeline),
	}
	defer s.peers.leave(from)
	in.out = newOutput(st, &s.cfg, in.peer.egress, s.egress)

	stop := resetWhenDone(ctx, st, network.StreamShutdown) // wakes both sides
	var writer sync.WaitGroup
	writer.Go(func() { in.write(run, ctx) })
	in.read(cancel)
	close(in.queue)
	writer.Wait()
	stop()
	_ = st.Close()
}

// read decodes requests into the queue. When the stream failed it resets it,
// cancel stopping the answer under way; at its orderly end the queue is still
// answered.
func (in *inbound) read(cancel context.CancelFunc) {
	cfg := &in.srv.cfg
	r := &requestReader{in: in, timed: timed.NewReader(in.st, timed.NewPace(cfg.ReadTimeout, int64(cfg.MinRate)))}
	r.frames = oap.NewReader(r, oap.MaxFrame)
	for {
		r.timed.Rest()
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
	in     *inbound
	timed  timed.Reader // its clock runs from the first bytes of a frame to its last
	frames *oap.Reader
}

// Read implements [io.Reader].
func (r *requestReader) Read(p []byte) (int, error) {
	now := time.Now()
	if r.frames.Buffered() == 0 {
		return r.idle(p, now)
	}
	n, err := r.timed.ReadUntil(p, now, r.timed.Until(now))
	if errors.Is(err, timed.ErrPassed) {
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
		if n, err := r.timed.ReadUntil(p, now, end); !errors.Is(err, timed.ErrPassed) {
			return n, err
		}
	}
}

// take queues the request in f, or its refusal. A returned error ends the
// stream.
func (in *inbound) take(f oap.Frame) error {
	const whole = oap.FlagReq | oap.FlagStart | oap.FlagEnd
	switch {
	case f.Flags.IsAck():
		return oap.Refuse(oap.ReasonCreditViolation, "nothing was sent with ACK_REQ")
	case !f.Flags.Has(oap.FlagReq | oap.FlagStart):
		return oap.Refuse(oap.ReasonBadFlags, "flags %#04x where a request starts", uint16(f.Flags))
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
		req.refusal = status.Errorf(status.Unsupported, "object: flags %#04x on a request", uint16(f.Flags))
	default:
		if err := in.decode(req, f); err != nil {
			return err
		}
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
func (in *inbound) refuse(r oap.Reason, format string, args ...any) error {
	in.srv.metrics.rejected.WithLabelValues(r.String()).Inc()
	return oap.Refuse(r, format, args...)
}

// decode fills req from the frame, or its refusal; the error ends the stream.
func (in *inbound) decode(req *request, f oap.Frame) error {
	p := f.Payload
	if f.Flags.Has(oap.FlagComp) {
		var err error
		if p, err = oap.Inflate(nil, p, oap.MaxFrame); err != nil {
			return err
		}
	}
	req.query, req.refusal = decodeQuery(p)
	if req.refusal == nil && !f.Flags.Has(oap.FlagEnd) {
		req.refusal = status.Errorf(status.BadRequest, "object: a %s is one frame", req.op)
	}
	return nil
}

// admit takes the places that a request needs before it may wait.
func (in *inbound) admit() (release func(), err error) {
	leave, err := in.peer.inflight.TryAcquire()
	if err != nil {
		return nil, err
	}
	if err := in.srv.admit(); err != nil {
		leave()
		return nil, err
	}
	return func() {
		leave()
		in.srv.done()
	}, nil
}
