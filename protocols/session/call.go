package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// Call sends a request, a JSON object without deadline_ms, to an application
// protocol of p and returns the payload of the answer. It opens a session when
// there is none, waits for a place among those in flight, and adds what is left
// of ctx's deadline. The error is p's own answer (see status.Of), or timeout,
// canceled, busy, draining or transport_down.
//
// A request whose session p closed without answering it is sent once more: a
// node answers what it took before it closes.
func (s *Service) Call(ctx context.Context, p peer.ID, proto uint16, payload []byte) ([]byte, error) {
	return s.ask(ctx, p, proto, payload, false)
}

// Ping measures the round trip to p over its session, which it opens when there
// is none and does not keep open.
func (s *Service) Ping(ctx context.Context, p peer.ID) (time.Duration, error) {
	if _, err := s.session(ctx, p); err != nil {
		return 0, err
	}
	sent := time.Now()
	probe := binary.BigEndian.AppendUint64(nil, uint64(sent.UnixNano()))
	echo, err := s.ask(ctx, p, oap.ProtoControl, probe, true)
	if err == nil && !bytes.Equal(echo, probe) {
		err = status.Errorf(status.Upstream, "session: ping: the peer echoed something else")
	}
	return time.Since(sent), err
}

func (s *Service) ask(ctx context.Context, p peer.ID, proto uint16, payload []byte, ping bool) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, remoteError(context.Cause(ctx))
	}
	for again := true; ; again = false {
		l, err := s.session(ctx, p)
		if err != nil {
			return nil, err
		}
		answer, err := l.call(ctx, proto, payload, ping)
		if err == nil || !again || !errors.Is(err, errGone) {
			return answer, err
		}
	}
}

// call sends one request over the link and waits for its answer.
func (l *link) call(ctx context.Context, proto uint16, payload []byte, ping bool) ([]byte, error) {
	if err := l.peer.permits.acquire(ctx, l.dead, l.slots, 1); err != nil {
		return nil, remoteError(err)
	}
	x, err := l.start(ctx, proto, payload, ping)
	if err != nil {
		l.slots.Release(1)
		return nil, remoteError(err)
	}
	over := ctx
	select {
	case a := <-x.answer:
		return l.take(x, a)
	case <-ctx.Done():
	case <-l.dead.Done():
		over = l.dead
	}
	select {
	case a := <-x.answer: // it came at the same time
		return l.take(x, a)
	default:
		return nil, remoteError(context.Cause(over))
	}
}

// take returns what a call was answered. Who answered took the exchange out of
// flight, so it may be used again.
func (l *link) take(x *exchange, a answer) ([]byte, error) {
	l.svc.exchanges.Put(x)
	return a.payload, a.err
}

// start puts a request in flight and in the egress queue.
func (l *link) start(ctx context.Context, proto uint16, payload []byte, ping bool) (*exchange, error) {
	flags := whole
	if !ping {
		payload = withDeadline(ctx, payload)
	}
	if len(payload) > oap.MaxJSON {
		return nil, status.Errorf(status.FrameOversize, "session: request of %d bytes, at most %d", len(payload), oap.MaxJSON)
	}
	if l.compress && len(payload) >= compressAbove {
		if z, ok := oap.Compress(nil, payload, l.maxFrame.Load()); ok {
			payload, flags = z, flags|oap.FlagComp
		}
	}
	charged := int64(len(payload))
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
	l.svc.inflight.add() // before register looks: a Drain counts this call or has it refused
	corr, err := l.register(x)
	if err != nil {
		l.svc.inflight.done(1)
		l.peer.permits.release(1, charged)
		return nil, err
	}
	defer l.leave()
	o := outgoingFrame(oap.Header{Flags: flags, Proto: proto, CorrID: corr})
	o.frame.Payload, o.charged = payload, charged
	l.put(o)
	return x, nil
}

// register gives x a corr_id and enters.
func (l *link) register(x *exchange) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.svc.draining.Load() {
		return 0, errDraining
	}
	if l.goneAway {
		return 0, status.Errorf(status.Draining, "session: the peer is shutting down; ask another")
	}
	if l.shut {
		return 0, errGone
	}
	l.lastCorr++
	l.flight[l.lastCorr] = x
	if !x.ping {
		l.lastActive = time.Now()
	}
	l.producers.Add(1)
	return l.lastCorr, nil
}

// ask is the opener's side after HELLO: answers until the stream ends.
func (l *link) ask() error {
	defer l.abandon()
	for {
		f, err := l.next()
		if err != nil {
			return err
		}
		switch ack := f.Flags.IsAck(); {
		case !ack && isHello(f):
			err = l.svc.m.reject(errSecondHello)
		case !ack && f.Flags.Has(oap.FlagResp):
			err = l.answered(f)
		default:
			err = l.unanswering(f)
		}
		if err == nil {
			err = l.leaving()
		}
		if err != nil {
			return err
		}
	}
}

// unanswering takes a frame that is no answer, in its turn.
func (l *link) unanswering(f oap.Frame) error {
	if err := l.toll(); err != nil {
		return err
	}
	if err := l.inflates(f); err != nil {
		return err
	}
	switch {
	case f.Flags.IsAck():
		return l.svc.m.reject(l.ack(f))
	case f.Flags.Has(oap.FlagReq):
		return l.unasked(f)
	case f.Proto == oap.ProtoControl: // GOAWAY
		l.mu.Lock()
		l.goneAway = true
		l.mu.Unlock()
	}
	return nil
}

// leaving ends a session whose peer is going away when nothing is in flight.
func (l *link) leaving() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.goneAway || len(l.flight) > 0 {
		return nil
	}
	l.shut = true
	return errGoneAway
}

// abandon gives up what is in flight on a session that ended.
func (l *link) abandon() {
	l.mu.Lock()
	n := len(l.flight)
	clear(l.flight)
	l.shut = true
	l.mu.Unlock()
	l.svc.inflight.done(n)
}

// unasked refuses a request from the side that answers (OAP1 §5).
func (l *link) unasked(f oap.Frame) error {
	if err := l.peer.permits.hold(l.dead); err != nil {
		return err
	}
	l.reply(f, nil, status.Errorf(status.BadRequest, "the acceptor of a session does not ask; open one of your own"), false)
	return nil
}

// answered hands an answer to whoever waits for it. An answer to what is not
// in flight is of no interest: its call was given up.
func (l *link) answered(f oap.Frame) error {
	end := f.Flags.Has(oap.FlagEnd)
	l.mu.Lock()
	x := l.flight[f.CorrID]
	if x != nil { // from here on nobody but the call and this knows it
		delete(l.flight, f.CorrID)
		if !x.ping {
			l.lastActive = time.Now()
		}
	}
	l.mu.Unlock()
	if x == nil {
		if err := l.toll(); err != nil {
			return err
		}
		return l.inflates(f)
	}
	a, refused := decodeAnswer(f, end, l.maxFrame.Load())
	x.answer <- a // there is room: who takes an exchange out of flight answers it, once
	l.slots.Release(1)
	l.svc.inflight.done(1)
	switch {
	case refused:
		return l.svc.m.reject(a.err)
	case !end:
		return l.toll() // as what follows of it
	}
	return l.grant(f)
}

// decodeAnswer reads an answer, or says that the frame is refused: then the
// stream is reset.
func decodeAnswer(f oap.Frame, end bool, maxFrame uint32) (a answer, refused bool) {
	payload, err := f.Inflated(maxFrame)
	if err != nil {
		return answer{err: err}, true
	}
	if !end {
		return answer{err: status.Errorf(status.Upstream, "session: the peer answered in several frames, which sessions do not carry")}, false
	}
	if !f.Flags.Has(oap.FlagComp) {
		payload = append([]byte(nil), payload...)
	}
	return answer{payload: payload, err: oap.PayloadError(f.Code, payload)}, false
}
