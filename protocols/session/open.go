package session

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// opening is a session that this node opens or has opened. Concurrent callers share
// it.
type opening struct {
	done chan struct{} // closed when link or err is set
	link atomic.Pointer[link]
	err  error
}

// closed reports whether the session accepts no more requests.
func (o *opening) closed() bool {
	l := o.link.Load()
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut
}

// Clock is the time of a peer's clock in its HELLO.
type Clock struct {
	ReceivedAt time.Time // when the HELLO arrived, by this node's clock
	PeerTime   time.Time // the peer's clock at that moment: the time in the HELLO and half the round trip
}

// Clock opens a session with p if there is none, and returns p's clock. It returns
// false if p's HELLO has no time. It does not keep the session open.
func (s *Service) Clock(ctx context.Context, p peer.ID) (Clock, bool, error) {
	l, err := s.session(ctx, p)
	if err != nil {
		return Clock{}, false, err
	}
	return l.said.clock, !l.said.clock.ReceivedAt.IsZero(), nil
}

// Announces reports whether this node and p announced a feature in the HELLO of the session that this node has opened
// with it. It opens none.
func Announces(s *Service, p peer.ID, feature string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.peers[p]
	if e == nil || e.opened == nil {
		return false
	}
	l := e.opened.link.Load() // set after its HELLO
	return l != nil && slices.Contains(l.said.features, feature)
}

// session returns a usable session with p, and opens one if there is none.
func (s *Service) session(ctx context.Context, p peer.ID) (*link, error) {
	o, err := s.opening(p) //nolint:contextcheck // callers share it: it runs under Run's context
	if err != nil {
		return nil, err
	}
	select {
	case <-o.done:
		return o.link.Load(), o.err
	case <-ctx.Done():
		return nil, remoteError(context.Cause(ctx))
	}
}

// opening returns the current opening of p if it is usable, else it starts a new one.
func (s *Service) opening(p peer.ID) (*opening, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.running == nil:
		return nil, errStopped
	case s.inflight.Closed():
		return nil, errDraining
	}
	if e := s.peers[p]; e != nil && e.opened != nil && !e.opened.closed() {
		return e.opened, nil
	}
	e := s.entry(p)
	o := &opening{done: make(chan struct{})}
	e.opened = o
	ctx := s.running
	s.wg.Go(func() {
		s.open(ctx, e, o)
		s.removeOpening(e, o)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unref(e)
	})
	return o, nil
}

// removeOpening makes the next caller open a new session.
func (s *Service) removeOpening(e *peerEntry, o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.opened == o {
		e.opened = nil
	}
}

// open opens a session, reports the result to the waiting callers, and runs the
// session to its end.
func (s *Service) open(ctx context.Context, e *peerEntry, o *opening) {
	fail := func(err error) {
		o.err = err
		s.removeOpening(e, o)
		close(o.done)
	}
	if err := s.places.Enter(""); err != nil { // no IP group, because this node opens it
		fail(err)
		return
	}
	defer s.places.Leave("")
	limited := network.WithAllowLimitedConn(ctx, "allium session")
	opening, cancel := context.WithTimeout(limited, s.cfg.Load().OpenTimeout)
	defer cancel()
	stream, err := s.host.NewStream(opening, e.id, ProtocolID)
	if err != nil {
		fail(openError(ctx, opening, err))
		return
	}
	l := s.attach(stream, true)
	if l == nil {
		_ = stream.ResetWithError(network.StreamShutdown)
		fail(errStopped)
		return
	}
	defer s.detach(l)
	l.run(func() error {
		if err := l.recoverPanic(l.sendHello); err != nil { // guarded, so that waiting callers always get a result
			if l.dead.Err() != nil { // the session ended first, and so the reader failed
				err = context.Cause(l.dead)
			}
			fail(remoteError(err))
			return err
		}
		o.link.Store(l)
		close(o.done)
		return l.readAnswers()
	})
}

// openError returns the error of a stream that could not be opened, with its
// outcome. opening is the context of the attempt; running is that of Run.
func openError(running, opening context.Context, err error) error {
	switch {
	case running.Err() != nil:
		return errStopped
	case opening.Err() != nil:
		return status.Errorf(status.Timeout, "open a session: the peer was not reached in time: %w", err)
	}
	return status.Errorf(status.TransportDown, "open a session: the peer was not reached: %w", err)
}

// sendHello sends this node's HELLO and waits for the acceptor's.
func (l *link) sendHello() error {
	if err := l.peer.permits.acquireForReader(l.dead); err != nil {
		return err
	}
	o := outgoingFrame(oap.Header{Flags: whole, Proto: oap.ProtoControl})
	o.frame.Payload = oap.HelloRequest{
		UA:       l.svc.own.agent,
		Features: slices.Concat([]string{"verified-range", oap.FeatureCompZstd}, l.svc.own.features),
		MaxFrame: uint32(l.cfg.MaxFrame), Now: l.svc.now().UnixMilli(), Region: l.svc.regions.own,
	}.Encode()
	sent := time.Now()
	l.put(o)
	f, err := l.next()
	if errors.Is(err, errEnded) {
		err = status.Errorf(status.TransportDown, "the peer closed the stream instead of answering HELLO")
	}
	if err != nil {
		return err
	}
	if !isHello(f) || !f.Flags.Has(oap.FlagResp|oap.FlagEnd) {
		return l.svc.m.reject(oap.Refuse(oap.ReasonBadHello,
			"the first frame is %s of app_proto_id %d", f.Flags, f.Proto))
	}
	if err := l.checkPayload(f); err != nil {
		return err
	}
	if err := oap.PayloadError(f.Code, f.Payload); err != nil {
		return err
	}
	h, err := oap.DecodeHelloResponse(f.Payload)
	if err != nil {
		return l.svc.m.reject(err)
	}
	said := greeting{features: slices.DeleteFunc(slices.Clone(l.svc.own.features), func(own string) bool {
		return !slices.Contains(h.Features, own)
	})}
	if h.Now != 0 {
		got := time.Now()
		said.clock = Clock{ReceivedAt: got, PeerTime: time.UnixMilli(h.Now).Add(got.Sub(sent) / 2)}
	}
	l.svc.regions.claimed(l.peer.id, h.Region)
	maxFrame := min(h.MaxFrame, uint32(l.cfg.MaxFrame))
	maxInflight := min(int64(h.MaxInflight), l.cfg.MaxInflight)
	l.helloDone(said, maxFrame, maxInflight, h.FlagsSupported.Has(oap.FlagComp))
	return nil
}
