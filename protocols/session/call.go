package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/tracing"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Call is [Service.CallWith] without a capability.
func (s *Service) Call(ctx context.Context, p peer.ID, proto uint16, payload []byte) ([]byte, error) {
	return s.CallWith(ctx, p, Message{Proto: proto, Payload: payload})
}

// Message is a request that this node sends.
type Message struct {
	Proto   uint16 // app_proto_id (OAP1 §4)
	Payload []byte // a JSON object without deadline_ms, which CallWith adds; at most oap.MaxJSON bytes with it
	// Cap is a capability as a binary macaroon (OAP1 §7), at most oap.MaxCap bytes. Empty: none.
	Cap []byte
}

// CallWith sends a request to p and returns the payload of the answer. It adds to the
// request the time left until ctx's deadline. CallWith opens a session if there is none,
// and waits for a place among the requests in flight. The error is p's own answer (see
// status.Of), frame_oversize, timeout, canceled, busy, draining or transport_down.
//
// If p closes the session without an answer, CallWith sends the request once more. A
// node answers every request that it accepted before it closes, so p did not accept
// this one.
func (s *Service) CallWith(ctx context.Context, p peer.ID, m Message) ([]byte, error) {
	ctx, span := tracing.Child(ctx, "call")
	answer, err := s.ask(ctx, p, m, false)
	span.End(err)
	return answer, err
}

// Ping measures the round trip to p over a session. It opens one if there is none,
// and does not keep it open.
func (s *Service) Ping(ctx context.Context, p peer.ID) (time.Duration, error) {
	if _, err := s.session(ctx, p); err != nil {
		return 0, err
	}
	sent := time.Now()
	probe := binary.BigEndian.AppendUint64(nil, uint64(sent.UnixNano()))
	echo, err := s.ask(ctx, p, Message{Proto: oap.ProtoControl, Payload: probe}, true)
	if err == nil && !bytes.Equal(echo, probe) {
		err = status.Errorf(status.Upstream, "ping: the peer echoed other bytes")
	}
	return time.Since(sent), err
}

func (s *Service) ask(ctx context.Context, p peer.ID, m Message, ping bool) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, remoteError(context.Cause(ctx))
	}
	for again := true; ; again = false {
		l, err := s.session(ctx, p)
		if err != nil {
			return nil, err
		}
		answer, err := l.call(ctx, m, ping)
		if err == nil || !again || !errors.Is(err, errGone) {
			return answer, err
		}
	}
}

// call sends one request over the link and waits for its answer.
func (l *link) call(ctx context.Context, m Message, ping bool) ([]byte, error) {
	if err := l.peer.permits.acquire(ctx, l.dead, l.slots, 1); err != nil {
		return nil, remoteError(err)
	}
	x, err := l.start(ctx, m, ping)
	if err != nil {
		l.slots.Release(1)
		return nil, remoteError(err)
	}
	over := ctx
	select {
	case a := <-x.answer:
		return l.finishCall(x, a)
	case <-ctx.Done():
	case <-l.dead.Done():
		over = l.dead
	}
	select {
	case a := <-x.answer: // it arrived at the same time
		return l.finishCall(x, a)
	default:
		return nil, remoteError(context.Cause(over))
	}
}

// finishCall returns the answer of a call and recycles x, which is no longer in flight.
func (l *link) finishCall(x *exchange, a answer) ([]byte, error) {
	l.svc.exchanges.Put(x)
	return a.payload, a.err
}

// start registers a request as in flight and queues its frame.
func (l *link) start(ctx context.Context, m Message, ping bool) (*exchange, error) {
	flags, payload := whole, m.Payload
	if !ping {
		payload = withDeadline(ctx, withTrace(ctx, payload))
	}
	if len(payload) > oap.MaxJSON {
		return nil, status.Errorf(status.FrameOversize, "the request has %d bytes, at most %d",
			len(payload), oap.MaxJSON)
	}
	if len(m.Cap) > oap.MaxCap {
		return nil, status.Errorf(status.FrameOversize,
			"the capability has %d bytes, at most %d", len(m.Cap), oap.MaxCap)
	}
	if l.compress && len(payload) >= compressAbove {
		if z, ok := l.svc.codec.Compress(nil, payload, l.maxFrame.Load()); ok {
			payload, flags = z, flags|oap.FlagComp
		}
	}
	charged := int64(len(payload) + len(m.Cap))
	if err := l.peer.permits.frame(ctx, l.dead); err != nil {
		return nil, err
	}
	if err := l.peer.permits.charge(ctx, l.dead, charged); err != nil {
		l.peer.permits.release(1, 0)
		return nil, err
	}
	x, again := l.svc.exchanges.Get().(*exchange)
	if !again {
		x = &exchange{answer: make(chan answer, 1)}
	}
	x.ping, x.sent, x.acked = ping, 1, 0
	if !l.svc.inflight.Enter() {
		l.peer.permits.release(1, charged)
		return nil, errDraining
	}
	corr, err := l.register(x)
	if err != nil {
		l.svc.inflight.Leave()
		l.peer.permits.release(1, charged)
		return nil, err
	}
	defer l.leave()
	o := outgoingFrame(oap.Header{Flags: flags, Proto: m.Proto, CorrID: corr})
	o.frame.Cap, o.frame.Payload, o.charged = m.Cap, payload, charged
	l.put(o)
	return x, nil
}

// register gives x a corr_id and calls enter.
func (l *link) register(x *exchange) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.goneAway {
		return 0, status.Errorf(status.Draining, "the peer is shutting down; ask another")
	}
	if l.shut {
		return 0, errGone
	}
	l.lastCorr++
	l.requests[l.lastCorr] = x
	if !x.ping {
		l.lastActive = time.Now()
	}
	l.producers.Add(1)
	return l.lastCorr, nil
}

// readAnswers is the reader of an opened link after HELLO. It reads answers until the stream
// ends.
func (l *link) readAnswers() error {
	defer l.removeCalls()
	for {
		f, err := l.next()
		if err != nil {
			return err
		}
		switch ack := f.Flags.IsAck(); {
		case !ack && isHello(f):
			err = l.svc.m.reject(errSecondHello)
		case !ack && f.Flags.Has(oap.FlagResp):
			err = l.deliver(f)
		default:
			err = l.handleNonAnswer(f)
		}
		if err == nil {
			err = l.checkGoAway()
		}
		if err != nil {
			return err
		}
	}
}

// handleNonAnswer handles a frame that is no answer, within the peer's rate.
func (l *link) handleNonAnswer(f oap.Frame) error {
	if err := l.waitForRate(); err != nil {
		return err
	}
	if err := l.checkPayload(f); err != nil {
		return err
	}
	switch {
	case f.Flags.IsAck():
		return l.svc.m.reject(l.ack(f))
	case f.Flags.Has(oap.FlagReq):
		return l.rejectRequest(f)
	case f.Proto == oap.ProtoControl: // GOAWAY
		l.mu.Lock()
		l.goneAway = true
		l.mu.Unlock()
	}
	return nil
}

// checkGoAway returns errGoneAway if the peer sent GOAWAY and nothing is in flight.
func (l *link) checkGoAway() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.goneAway || len(l.requests) > 0 {
		return nil
	}
	l.shut = true
	return errGoneAway
}

// removeCalls removes the calls in flight after the session ended.
func (l *link) removeCalls() {
	l.mu.Lock()
	n := len(l.requests)
	clear(l.requests)
	l.shut = true
	l.mu.Unlock()
	for range n {
		l.svc.inflight.Leave()
	}
}

// rejectRequest answers bad_request to a request of the acceptor (OAP1 §5).
func (l *link) rejectRequest(f oap.Frame) error {
	if err := l.peer.permits.acquireForReader(l.dead); err != nil {
		return err
	}
	l.reply(f, nil, status.Errorf(status.BadRequest,
		"the acceptor of a session does not send requests; open a session of your own"), false)
	return nil
}

// deliver delivers an answer to its call. It ignores an answer without a call in
// flight, because the caller gave up.
func (l *link) deliver(f oap.Frame) error {
	end := f.Flags.Has(oap.FlagEnd)
	l.mu.Lock()
	x := l.requests[f.CorrID]
	if x != nil { // from here on, only the call and this function use x
		delete(l.requests, f.CorrID)
		if !x.ping {
			l.lastActive = time.Now()
		}
	}
	l.mu.Unlock()
	if x == nil {
		if err := l.waitForRate(); err != nil {
			return err
		}
		return l.checkPayload(f)
	}
	a, refused := l.decodeAnswer(f, end)
	x.answer <- a // never blocks: only the goroutine that removed x from flight answers it
	l.slots.Release(1)
	l.svc.inflight.Leave()
	switch {
	case refused:
		return l.svc.m.reject(a.err)
	case !end:
		return l.waitForRate() // the following frames of the answer count against the rate too
	}
	return l.grant(f)
}

// decodeAnswer decodes an answer. refused means that the frame is invalid and the
// stream must be reset.
func (l *link) decodeAnswer(f oap.Frame, end bool) (a answer, refused bool) {
	payload, err := f.Inflated(l.svc.codec, l.maxFrame.Load())
	if err != nil {
		return answer{err: err}, true
	}
	if !end {
		return answer{err: status.Errorf(status.Upstream,
			"the peer answered in several frames; an answer on a session is one frame")}, false
	}
	if !f.Flags.Has(oap.FlagComp) {
		payload = append([]byte(nil), payload...)
	}
	return answer{payload: payload, err: oap.PayloadError(f.Code, payload)}, false
}
