package session

import (
	"errors"
	"slices"
	"time"

	"allium/internal/limits"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// maxPing is the largest PING payload, in bytes (OAP1 §5).
const maxPing = 64

// compressAbove is the payload size, in bytes, from which compression is worth
// its time.
const compressAbove = 1 << 10

// whole are the flags of a request of one frame: the only kind on a session.
const whole = oap.FlagReq | oap.FlagStart | oap.FlagEnd

// serve is the acceptor's side after HELLO: requests until the stream ends.
func (l *link) serve() error {
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
			err = l.unasking(f)
		}
		if err != nil {
			return err
		}
	}
}

// unasking takes a frame that is no request, in its turn.
func (l *link) unasking(f oap.Frame) error {
	if err := l.toll(); err != nil {
		return err
	}
	if err := l.inflates(f); err != nil {
		return err
	}
	switch {
	case f.Flags.IsAck():
		return l.svc.m.reject(l.ack(f))
	case f.Flags.Has(oap.FlagEvent) && f.Proto != oap.ProtoControl:
		_ = l.svc.m.reject(oap.Refuse(oap.ReasonUnknownProto, "event")) // one-way: counted, not answered
	}
	// What is left is GOAWAY, which asks nothing of the side that answers, and
	// answers to what was never asked.
	return nil
}

// toll charges the rates of the peer and its IP group for a frame that cannot be refused, for it waits
// for no answer. Beyond the rate the session is read no further until there is a
// token: sooner than the session would be idle, or it ends.
func (l *link) toll() error {
	if err := l.pay(l.peer.rate); err != nil || l.groupRate == nil {
		return err
	}
	return l.pay(l.groupRate)
}

// pay waits for a token.
func (l *link) pay(rate *limits.Rate) error {
	if rate.Take() {
		return nil
	}
	l.svc.m.paced.Inc()
	return rate.Wait(l.dead, 1, l.idleAfter)
}

// rated takes a token of the peer and of its IP group, or returns busy.
func (l *link) rated() error {
	if err := busy(l.peer.rate.Allow()); err != nil || l.groupRate == nil {
		return err
	}
	return busy(l.groupRate.Allow())
}

// welcome waits for the opener's HELLO and answers it.
func (l *link) welcome() error {
	f, err := l.next()
	if err != nil {
		return err
	}
	if !isHello(f) || !f.Flags.Has(whole) {
		return l.svc.m.reject(oap.Refuse(oap.ReasonBadHello, "the first frame is %s of app_proto_id %d", f.Flags, f.Proto))
	}
	if err := l.inflates(f); err != nil {
		return err
	}
	h, err := oap.DecodeHelloRequest(f.Payload) // compressed it is none: nothing is agreed yet
	if err != nil {
		return l.svc.m.reject(err)
	}
	if err := l.peer.permits.hold(l.dead); err != nil {
		return err
	}
	cfg := &l.svc.cfg
	maxFrame := uint32(cfg.MaxFrame)
	if h.MaxFrame != 0 {
		maxFrame = min(maxFrame, h.MaxFrame)
	}
	o := outgoingFrame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: uint16(status.OK.Code()), Proto: oap.ProtoControl})
	o.frame.Payload = oap.HelloResponse{
		MaxFrame: maxFrame, MaxInflight: uint32(cfg.MaxInflight), CreditWindow: uint32(cfg.CreditWindow),
		FlagsSupported: oap.FlagsKnown, Versions: []uint16{oap.Version}, Transports: l.svc.listening(), Now: l.svc.now().UnixMilli(),
	}.Encode()
	l.svc.agree(l.stream.Conn(), maxFrame) // before the opener can ask for objects by it
	l.put(o)
	l.greeted(h.UA, maxFrame, 0, slices.Contains(h.Features, oap.FeatureCompZstd))
	return nil
}

// inflates refuses a frame that is not answered when its payload is damaged.
func (l *link) inflates(f oap.Frame) error {
	maxFrame := l.maxFrame.Load()
	if maxFrame == 0 { // before HELLO
		maxFrame = oap.MinMaxFrame
	}
	_, err := f.Inflated(maxFrame)
	return l.svc.m.reject(err)
}

// isHello reports whether a frame that is no ACK is a HELLO of either side.
func isHello(f oap.Frame) bool {
	return f.Proto == oap.ProtoControl && f.CorrID == 0 && !f.Flags.Has(oap.FlagEvent)
}

// errSecondHello refuses a HELLO of either side after the first.
var errSecondHello = oap.Refuse(oap.ReasonBadHello, "HELLO is over")

// request takes one REQ frame. The place of its answer in the egress queue is
// taken first: a peer that does not read its answers is not read any more.
func (l *link) request(f oap.Frame) error {
	if err := l.grant(f); err != nil { // before the answer, after which the corr_id is unknown
		return err
	}
	if err := l.peer.permits.hold(l.dead); err != nil { // one permit at a time: two readers with one each would wait for ever
		return err
	}
	held := true
	defer func() {
		if held { // it resets, or a bug in decoding it panicked
			l.peer.permits.release(1, 0)
		}
	}()
	err := l.svc.m.reject(l.admit(f))
	if held = resets(err); held {
		return err
	}
	if err != nil {
		l.reply(f, nil, err, false)
	}
	return nil
}

// resets reports whether a refusal ends the stream.
func resets(err error) bool {
	var de *oap.DecodeError
	return errors.As(err, &de) && !de.Reason.Answered()
}

// admit answers a control request, hands any other to a worker, or refuses it.
// Unless it fails, the frame permit is used up.
func (l *link) admit(f oap.Frame) error {
	s := l.svc
	dup := l.answering(f.CorrID)
	if !dup { // busy would be about the request that was taken
		if err := l.rated(); err != nil {
			return err
		}
	}
	payload, err := f.Inflated(l.maxFrame.Load())
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
		return status.Errorf(status.BadRequest, "a request on a session is one frame, START and END; this one is %s", f.Flags)
	}
	req, err := decodeRequest(f, payload)
	if err != nil {
		return err
	}
	return l.dispatch(f, req, handle)
}

// busy turns the registry's rate_limit and quota into the busy that SPEC §2 asks for.
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
		return status.Errorf(status.BadRequest, "PING of %d bytes, at most %d", len(payload), maxPing)
	}
	l.reply(f, append([]byte(nil), payload...), nil, false)
	return nil
}

// answering reports whether a request of that corr_id is in flight.
func (l *link) answering(corr uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flight[corr] != nil
}

// dispatch puts the request in flight and in the queue of the workers.
func (l *link) dispatch(f oap.Frame, req *Request, handle Handler) error {
	s := l.svc
	s.inflight.add() // before the look: a Drain counts this request or has it refused
	if s.draining.Load() {
		s.inflight.done(1)
		return errDraining
	}
	if err := busy(l.places.TryAcquire()); err != nil {
		s.inflight.done(1)
		return err
	}
	l.mu.Lock()
	l.flight[f.CorrID] = &exchange{}
	l.lastActive = time.Now()
	l.producers.Add(1)
	l.owed++
	l.mu.Unlock()
	t := newTask(l, f, req, handle)
	shed, err := s.ingress.TryPutAt(l.peer.id, t, t.place)
	if err != nil {
		t.cancel()
		t.settle()
		l.paid(1)
		l.leave()
		return busy(err)
	}
	if shed != nil {
		shed.Item.finish(Response{Err: shed.Err})
	}
	return nil
}

// reply queues the answer to f: payload, or err. The frame permit is held.
// Bytes that the budgets do not have now make the answer busy: a worker does
// not wait for a peer that does not read.
func (l *link) reply(f oap.Frame, payload []byte, err error, final bool) {
	o := outgoingFrame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Proto: f.Proto, CorrID: f.CorrID})
	o.final = final
	if err == nil {
		err = l.fill(o, payload)
	}
	if err != nil {
		o.frame.Flags &^= oap.FlagComp
		o.frame.Code, o.frame.Payload = oap.ErrorPayload(err) // small, and as many as there are permits: not charged
	}
	l.put(o)
}

// fill makes o the success with that payload.
func (l *link) fill(o *outgoing, payload []byte) error {
	maxFrame := l.maxFrame.Load()
	if l.compress && len(payload) >= compressAbove {
		if z, ok := oap.Compress(nil, payload, maxFrame); ok {
			payload, o.frame.Flags = z, o.frame.Flags|oap.FlagComp
		}
	}
	if most := int(maxFrame) - oap.HeaderSize; len(payload) > most {
		l.svc.log.Error("an answer does not fit into a frame", "proto", o.frame.Proto, "bytes", len(payload), "room", most)
		return status.Errorf(status.Internal, "the answer is %d bytes, a frame holds %d", len(payload), most)
	}
	if err := l.peer.permits.tryCharge(int64(len(payload))); err != nil {
		return err
	}
	o.charged = int64(len(payload))
	o.frame.Code, o.frame.Payload = uint16(status.OK.Code()), payload
	return nil
}

// goAway tells the peer that this node is going. When there is no room for it
// the peer learns it from the answers.
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
