package session

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/deadline"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/inbound"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// link is one session stream, opened by us or by the peer.
//
// Invariants: one goroutine (run's) reads the stream and one (write's) writes
// it; whoever queues a frame holds a frame permit and is either the reader or
// between enter and leave, so that after shut and the last leave nothing is
// queued any more.
type link struct {
	svc    *Service
	peer   *peerEntry
	stream network.Stream
	opened bool // by us: we ask and the peer answers; else the reverse

	in     *oap.Reader     // the reader's
	memory *inbound.Buffer // of in
	out    *oap.Writer     // the writer's

	dead   context.Context // ends with the link; its cause is why
	cancel context.CancelCauseFunc
	ended  atomic.Bool // dead is over and the stream closed or reset

	reading deadline.Reader // the reader's; its clock runs from the first bytes of a frame to its last
	writing deadline.Writer // the writer's; its clock runs while frames wait for the peer to take them

	producers sync.WaitGroup // between enter and leave
	writer    sync.WaitGroup // the goroutine of write, while there is one
	idleAfter time.Duration
	helloEnd  time.Time

	// Set by greeted, before anyone asks or is asked.
	maxFrame atomic.Uint32  // negotiated; 0 before HELLO
	compress bool           // the peer takes FlagComp
	clock    Clock          // opened: of the peer, if its HELLO said
	agent    string         // of an opener
	slots    *limits.Budget // opened: requests the peer takes at once

	places    *limits.FamilyGate // accepted: requests of the peer being answered
	group     ipgroup.Group      // of the connection; empty: none
	groupRate *limits.Rate       // of all links of the group; nil: none

	mu         sync.Mutex // before inflight.mu; only fields and counters change under it
	ready      bool       // both HELLOs are done
	shut       bool       // enter fails
	goneAway   bool       // the peer sent GOAWAY
	since      time.Time
	lastActive time.Time            // last request or answer; pings do not count
	flight     map[uint64]*exchange // requests not yet answered, by corr_id
	lastCorr   uint64
	owed       int    // answers promised and not yet written
	egress     egress // to the writer
}

// exchange is a request in flight.
type exchange struct {
	ping   bool
	sent   uint64      // our frames of this corr_id so far (OAP1 §6)
	acked  uint64      // how many of them the peer acknowledged
	answer chan answer // opened: capacity 1, so that the reader never waits
}

// answer is what a call gets.
type answer struct {
	payload []byte
	err     error
}

// newLink makes a link that is not running yet.
func (s *Service) newLink(ctx context.Context, e *peerEntry, stream network.Stream, opened bool) *link {
	now := time.Now()
	l := &link{
		svc: s, peer: e, stream: stream, opened: opened,
		helloEnd:  now.Add(s.cfg.HandshakeTimeout),
		idleAfter: s.cfg.IdleTimeout,
		since:     now,
		flight:    map[uint64]*exchange{},
		places:    s.answering.Gate(),
		reading:   deadline.NewReader(stream, deadline.NewMinRate(s.cfg.ReadTimeout, int64(s.cfg.MinRate))),
		writing:   deadline.NewWriter(stream, deadline.NewMinRate(s.cfg.WriteTimeout, int64(s.cfg.MinRate))),
	}
	if l.group = ipgroup.Of(stream.Conn().RemoteMultiaddr()); l.group != "" {
		l.groupRate = s.rateOf(l.group)
	}
	if opened {
		// The opener gives up first, so that its next request does not cross
		// the acceptor's close.
		l.idleAfter -= l.idleAfter / 4
	}
	l.in = oap.NewReader(timedReader{l}, oap.MinMaxFrame)
	l.out = oap.NewWriter(&l.writing, oap.MaxFrame)
	l.dead, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // fail ends it, nothing else
	l.memory = s.inbound.Open(l.dead, stream.Conn(), l.fail, l.reading.Pause)
	l.in.SetMemory(l.memory)
	return l
}

// run reads until the session ends and returns when nothing of it is left.
func (l *link) run(read func() error) {
	err := l.guarded(read)
	if !graceful(err) {
		l.fail(err)
	}
	l.mu.Lock()
	l.shut = true
	wasReady := l.ready
	l.mu.Unlock()
	l.in.Release()
	l.memory.Close()
	l.producers.Wait()
	l.dismiss()
	l.fail(err)
	l.forget(l.egress.take(math.MaxInt), false)
	if wasReady {
		l.svc.m.closed.Inc()
	}
}

// guarded runs a reader or a writer; a panic is a bug that costs one session.
func (l *link) guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.svc.m.panics.Inc()
			l.svc.log.Error("a session panicked", "panic", p, "stack", string(debug.Stack()))
			err = status.Errorf(status.Internal, "session: it failed because of a bug in this node, which was logged; try again")
		}
	}()
	return f()
}

// graceful reports whether a session that ends with err still sends what it
// owes: the stream ended between frames, nobody used it, or a GOAWAY is done.
func graceful(err error) bool {
	return errors.Is(err, errEnded) || errors.Is(err, errIdle) || errors.Is(err, errGoneAway)
}

// fail ends the link, once: calls in flight are told err, the stream is closed
// or reset with err's code.
func (l *link) fail(err error) {
	if !l.ended.CompareAndSwap(false, true) {
		return
	}
	l.cancel(err)
	if graceful(err) || errors.Is(err, errStopped) && l.quiet() {
		_ = l.stream.Close() // a failed close leaves nothing to do: the stream is gone
		return
	}
	_ = l.stream.ResetWithError(resetCode(err))
}

// quiet reports whether nothing is in flight, so that a close loses nothing.
func (l *link) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready && len(l.flight) == 0 && l.owed == 0
}

// enter announces a producer of frames; false: the session takes no more.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return false
	}
	l.producers.Add(1)
	return true
}

func (l *link) leave() { l.producers.Done() }

// greeted makes the link usable after both HELLOs. maxInflight counts for what
// we ask only.
func (l *link) greeted(agent string, maxFrame uint32, maxInflight int64, compress bool) {
	l.in.SetMaxFrame(maxFrame)
	l.agent, l.compress = agent, compress
	if l.opened {
		l.slots = (*limits.Registry)(nil).NewBudget(limits.Spec{Name: "session.max_inflight"}, maxInflight)
	}
	l.maxFrame.Store(maxFrame)
	l.svc.agree(l.stream.Conn(), maxFrame)
	l.mu.Lock()
	l.ready, l.lastActive = true, time.Now()
	l.mu.Unlock()
	l.svc.m.opened.Inc()
}

// ack checks an ACK (OAP1 §6): nothing is sent with ACK_REQ here, but what a
// peer claims must still be true.
func (l *link) ack(f oap.Frame) error {
	n, err := oap.DecodeAck(f.Payload)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.flight[f.CorrID]
	switch {
	case x == nil:
		return oap.Refuse(oap.ReasonCreditViolation, "corr_id %d is not in flight", f.CorrID)
	case n > x.sent || n < x.acked:
		return oap.Refuse(oap.ReasonCreditViolation, "corr_id %d: %d acknowledged after %d of %d sent", f.CorrID, n, x.acked, x.sent)
	}
	x.acked = n
	return nil
}

// grant acknowledges a message of one frame that asked for credit.
func (l *link) grant(f oap.Frame) error {
	if !f.Flags.Has(oap.FlagAckReq) {
		return nil
	}
	if err := l.peer.permits.hold(l.dead); err != nil {
		return err
	}
	ack := oap.AckFrame(f.Header, 1)
	o := outgoingFrame(ack.Header)
	o.frame.Payload = ack.Payload
	l.put(o)
	return nil
}
