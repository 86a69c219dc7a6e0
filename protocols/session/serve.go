package session

import (
	"errors"
	"slices"
	"time"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// maxPing is the largest PING payload, in bytes (OAP1 §5).
const maxPing = 64

// compressAbove is the payload size in bytes from which compression saves more than
// it costs.
const compressAbove = 1 << 10

// whole has the flags of a request of one frame, the only kind on a session.
const whole = oap.FlagReq | oap.FlagStart | oap.FlagEnd

// readRequests is the reader of an accepted link after HELLO. It reads requests until the
// stream ends.
func (l *link) readRequests() error {
	for {
		f, err := l.next()
		if err != nil {
			return err
		}
		switch ack := f.Flags.IsAck(); {
		case !ack && isHello(f):
			err = l.svc.m.reject(errSecondHello)
		case !ack && f.Flags.Has(oap.FlagReq):
			err = l.request(f)
		default:
			err = l.handleNonRequest(f)
		}
		if err != nil {
			return err
		}
	}
}

// handleNonRequest handles a frame that is no request, within the peer's rate.
func (l *link) handleNonRequest(f oap.Frame) error {
	if err := l.waitForRate(); err != nil {
		return err
	}
	if err := l.checkPayload(f); err != nil {
		return err
	}
	switch {
	case f.Flags.IsAck():
		return l.svc.m.reject(l.ack(f))
	case f.Flags.Has(oap.FlagEvent) && f.Proto != oap.ProtoControl:
		_ = l.svc.m.reject(oap.Refuse(oap.ReasonUnknownProto, "event")) // an event has no answer
	}
	// The remaining frames need nothing: GOAWAY, and answers without a request.
	return nil
}

// waitForRate takes a token from the rates of the peer and its IP group, for a frame that
// has no answer and so cannot get busy. It waits for the token, so the session is
// not read meanwhile. The session ends if the wait exceeds the idle time.
func (l *link) waitForRate() error {
	if err := l.waitForToken(l.peer.rate); err != nil || l.groupRate == nil {
		return err
	}
	return l.waitForToken(l.groupRate)
}

// waitForToken takes a token from rate and waits for it if needed.
func (l *link) waitForToken(rate *limits.Rate) error {
	if rate.Take() {
		return nil
	}
	l.svc.m.delayed.Inc()
	return rate.Wait(l.dead, 1, idleAfter(l))
}

// takeRate takes a token from the rates of the peer and its IP group, or returns busy.
func (l *link) takeRate() error {
	if err := busy(l.peer.rate.Allow()); err != nil || l.groupRate == nil {
		return err
	}
	return busy(l.groupRate.Allow())
}

// answerHello waits for the opener's HELLO and answers it.
func (l *link) answerHello() error {
	f, err := l.next()
	if err != nil {
		return err
	}
	if !isHello(f) || !f.Flags.Has(whole) {
		return l.svc.m.reject(oap.Refuse(oap.ReasonBadHello,
			"the first frame is %s of app_proto_id %d", f.Flags, f.Proto))
	}
	if err := l.checkPayload(f); err != nil {
		return err
	}
	h, err := oap.DecodeHelloRequest(f.Payload) // a HELLO must not be compressed
	if err != nil {
		return l.svc.m.reject(err)
	}
	if err := l.peer.permits.acquireForReader(l.dead); err != nil {
		return err
	}
	l.svc.regions.claimed(l.peer.id, h.Region)
	cfg := l.cfg
	maxFrame := uint32(cfg.MaxFrame)
	if h.MaxFrame != 0 {
		maxFrame = min(maxFrame, h.MaxFrame)
	}
	o := outgoingFrame(oap.Header{
		Flags: oap.FlagResp | oap.FlagEnd, Code: uint16(status.OK.Code()), Proto: oap.ProtoControl,
	})
	o.frame.Payload = oap.HelloResponse{
		MaxFrame: maxFrame, MaxInflight: uint32(cfg.MaxInflight), CreditWindow: uint32(cfg.CreditWindow),
		FlagsSupported: oap.FlagsKnown, Versions: []uint16{oap.Version},
		Transports: l.svc.own.listening(), Features: l.svc.own.features, Now: l.svc.now().UnixMilli(),
		Region: l.svc.regions.own,
	}.Encode()
	l.svc.recordMaxFrame(l.stream.Conn(), maxFrame) // before the opener can request objects with it
	l.put(o)
	l.helloDone(greeting{agent: h.UA}, maxFrame, 0, slices.Contains(h.Features, oap.FeatureCompZstd))
	return nil
}

// checkPayload returns an error if the payload of a frame without an answer cannot be
// decompressed.
func (l *link) checkPayload(f oap.Frame) error {
	maxFrame := l.maxFrame.Load()
	if maxFrame == 0 { // before HELLO
		maxFrame = oap.MinMaxFrame
	}
	_, err := f.Inflated(l.svc.codec, maxFrame)
	return l.svc.m.reject(err)
}

// isHello reports whether a frame that is no ACK is a HELLO of either side.
func isHello(f oap.Frame) bool {
	return f.Proto == oap.ProtoControl && f.CorrID == 0 && !f.Flags.Has(oap.FlagEvent)
}

// errSecondHello is the error for a second HELLO.
var errSecondHello = oap.Refuse(oap.ReasonBadHello, "a second HELLO")

// request handles one REQ frame. It first takes the frame permit of the answer, so
// this node stops reading from a peer that does not read its answers.
func (l *link) request(f oap.Frame) error {
	if err := l.grant(f); err != nil { // before the answer, which ends the corr_id
		return err
	}
	// Take one permit at a time: two readers with one permit each would deadlock.
	if err := l.peer.permits.acquireForReader(l.dead); err != nil {
		return err
	}
	unused := true
	defer func() {
		if unused { // admit reset the stream or panicked
			l.peer.permits.release(1, 0)
		}
	}()
	err := l.svc.m.reject(l.admit(f))
	if unused = resets(err); unused {
		return err
	}
	if err != nil {
		l.reply(f, nil, err, false)
	}
	return nil
}

// resets reports whether err resets the stream.
func resets(err error) bool {
	var de *oap.DecodeError
	return errors.As(err, &de) && !de.Reason.Answered()
}

// admit answers a control request, or queues another request for the workers. If it
// returns nil, it has used the frame permit.
func (l *link) admit(f oap.Frame) error {
	s := l.svc
	dup := l.answering(f.CorrID)
	if !dup { // a busy answer would end the first request of the corr_id
		if err := l.takeRate(); err != nil {
			return err
		}
	}
	payload, err := f.Inflated(s.codec, l.maxFrame.Load())
	if err != nil {
		return err
	}
	if dup {
		return oap.Refuse(oap.ReasonDupCorr, "corr_id %d", f.CorrID)
	}
	handle := s.handlers[f.Proto]
	switch {
	case f.Proto == oap.ProtoControl && f.Flags.Has(whole):
		return l.ping(f, payload)
	case handle == nil && f.Proto != oap.ProtoControl:
		return oap.Refuse(oap.ReasonUnknownProto, "app_proto_id %d", f.Proto)
	case !f.Flags.Has(whole):
		return status.Errorf(status.BadRequest,
			"a request on a session is one frame with START and END; this one has %s",
			f.Flags)
	}
	req, err := decodeRequest(f, payload)
	if err != nil {
		return err
	}
	if err := l.authorize(f.Proto, f.Cap, req); err != nil {
		return err
	}
	return l.dispatch(f, req, handle)
}

// busy changes the outcomes rate_limit and quota of a limit to busy, which SPEC §2
// requires.
func busy(err error) error {
	if err == nil {
		return nil
	}
	var e *status.Error
	if errors.As(err, &e) {
		e.Outcome = status.Busy
	}
	return err
}

// ping answers PING.
func (l *link) ping(f oap.Frame, payload []byte) error {
	if len(payload) > maxPing {
		return status.Errorf(status.BadRequest, "the PING has %d bytes, at most %d", len(payload), maxPing)
	}
	l.reply(f, append([]byte(nil), payload...), nil, false)
	return nil
}

// answering reports whether a request with that corr_id is in flight.
func (l *link) answering(corr uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests[corr] != nil
}

// dispatch registers the request as in flight and queues it for the workers.
func (l *link) dispatch(f oap.Frame, req *Request, handle Handler) error {
	s := l.svc
	if !s.inflight.Enter() {
		s.m.notReady.WithLabelValues(env.PhaseDrain).Inc()
		return errDraining
	}
	if err := l.places.Enter(); err != nil {
		s.inflight.Leave()
		return err
	}
	l.mu.Lock()
	l.requests[f.CorrID] = &exchange{}
	l.lastActive = time.Now()
	l.producers.Add(1)
	l.unanswered++
	l.mu.Unlock()
	t := newTask(l, f, req, handle)
	shed, err := s.ingress.TryPutAt(l.peer.id, t, t.place)
	if err != nil {
		t.cancel()
		t.removeFromFlight()
		l.answersWritten(1)
		l.leave()
		return busy(err)
	}
	if shed != nil {
		shed.Item.finish(Response{Err: shed.Err})
	}
	return nil
}

// reply queues the answer to f: payload, or err. The caller has a frame permit. If
// the budgets have no bytes for the payload now, the answer becomes busy, because a
// worker must not wait for a peer that does not read. final says whether a drain
// waits for the answer.
func (l *link) reply(f oap.Frame, payload []byte, err error, final bool) {
	o := outgoingFrame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Proto: f.Proto, CorrID: f.CorrID})
	o.final = final
	if err == nil {
		err = l.fill(o, payload)
	}
	if err != nil {
		o.frame.Flags &^= oap.FlagComp
		// Error payloads are not charged: they are small, and the permits bound their number.
		o.frame.Code, o.frame.Payload = oap.ErrorPayload(err)
	}
	l.put(o)
}

// fill makes o a successful answer with the payload, compressed if the peer accepts
// that.
func (l *link) fill(o *outgoing, payload []byte) error {
	maxFrame := l.maxFrame.Load()
	if l.compress && len(payload) >= compressAbove {
		if z, ok := l.svc.codec.Compress(nil, payload, maxFrame); ok {
			payload, o.frame.Flags = z, o.frame.Flags|oap.FlagComp
		}
	}
	if limit := int(maxFrame) - oap.HeaderSize; len(payload) > limit {
		l.svc.log.Error("an answer does not fit a frame",
			"proto", o.frame.Proto, "bytes", len(payload), "limit", limit)
		return status.Errorf(status.Internal, "the answer has %d bytes, a frame holds %d", len(payload), limit)
	}
	if err := l.peer.permits.tryCharge(int64(len(payload))); err != nil {
		return err
	}
	o.charged = int64(len(payload))
	o.frame.Code, o.frame.Payload = uint16(status.OK.Code()), payload
	return nil
}

// goAway sends GOAWAY to the peer. Without a frame permit it does nothing; the peer
// then learns from draining answers that this node stops.
func (l *link) goAway(d time.Duration) {
	if !l.enter() {
		return
	}
	defer l.leave()
	if l.maxFrame.Load() == 0 || l.peer.permits.frames.TryAcquire(1) != nil {
		return
	}
	o := outgoingFrame(oap.Header{Flags: oap.FlagEvent | oap.FlagStart | oap.FlagEnd, Proto: oap.ProtoControl})
	o.frame.Payload = oap.GoAway{DrainMS: d.Milliseconds()}.Encode()
	l.put(o)
}
