package session

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/deadline"
	"allium/internal/guard"
	"allium/internal/inbound"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// link is one session stream. This node or the peer opened it.
//
// Invariants: one goroutine reads the stream (run) and one writes it (write). A
// goroutine that queues a frame has a frame permit, and is either the reader or
// between enter and leave. So nothing is queued after shut and the last leave.
type link struct {
	svc    *Service
	cfg    *Config // of the service when the link was made
	peer   *peerEntry
	stream network.Stream
	opened bool // whether this node opened it; the opener sends requests, the other node answers

	in     *oap.Reader     // used by the reader
	memory *inbound.Buffer // accounts the bytes of in
	out    *oap.Writer     // used by the writer

	dead   context.Context // ends with the link; its cause is the reason
	cancel context.CancelCauseFunc
	ended  atomic.Bool // dead has ended and the stream is closed or reset

	reading deadline.Reader // used by the reader; its clock runs from the first byte of a frame to the last
	writing deadline.Writer // used by the writer; its clock runs while frames wait for the peer

	producers sync.WaitGroup // goroutines between enter and leave
	writer    sync.WaitGroup // the goroutine of write, if it runs
	helloEnd  time.Time

	// Set by greeted, before the first request.
	maxFrame atomic.Uint32 // negotiated frame length in bytes; 0 before HELLO
	compress bool          // whether the peer accepts FlagComp
	said     greeting
	slots    *limits.Budget // opened only: places among the peer's max_inflight requests

	places    *limits.Gate  // accepted only: requests of the peer that are being answered
	group     ipgroup.Group // IP group of the connection; empty: none
	groupRate *limits.Rate  // shared by all links of the group; nil: none

	mu         sync.Mutex // only fields and counters change under it; lock: metadata
	ready      bool       // whether both HELLOs are done
	shut       bool       // whether enter fails
	goneAway   bool       // whether the peer sent GOAWAY
	since      time.Time
	lastActive time.Time            // time of the last request or answer, without pings
	requests   map[uint64]*exchange // requests without an answer, by corr_id
	lastCorr   uint64
	unanswered int    // accepted requests whose answer is not written
	egress     egress // frames for the writer
}

// greeting has the statements of a HELLO that concern its sender.
type greeting struct {
	clock    Clock    // opened only: the peer's clock, if its HELLO has one
	agent    string   // accepted only: the peer's user agent
	features []string // opened only: that both sides announce
}

// exchange is a request in flight.
type exchange struct {
	ping   bool
	sent   uint64      // frames that this node sent with this corr_id (OAP1 §6)
	acked  uint64      // frames that the peer acknowledged
	answer chan answer // opened only: capacity 1, so the reader never blocks
}

// answer is the result of a call.
type answer struct {
	payload []byte
	err     error
}

// idleAfter returns the time without a request after which the link is closed. The opener closes first; otherwise its
// next request could meet the acceptor's close.
func idleAfter(l *link) time.Duration {
	if l.opened {
		return l.cfg.IdleTimeout - l.cfg.IdleTimeout/4
	}
	return l.cfg.IdleTimeout
}

// newLink returns a link that does not run yet. The caller holds s.mu.
func (s *Service) newLink(ctx context.Context, e *peerEntry, stream network.Stream, opened bool) *link {
	now, cfg := time.Now(), s.cfg.Load()
	l := &link{
		svc: s, cfg: cfg, peer: e, stream: stream, opened: opened,
		helloEnd: now.Add(cfg.HandshakeTimeout),
		since:    now,
		requests: map[uint64]*exchange{},
		places:   s.answering.Member(),
		reading:  deadline.NewReader(stream, deadline.NewMinRate(cfg.ReadTimeout, int64(cfg.MinRate))),
		writing:  deadline.NewWriter(stream, deadline.NewMinRate(cfg.WriteTimeout, int64(cfg.MinRate))),
	}
	if l.group = ipgroup.Of(stream.Conn().RemoteMultiaddr()); l.group != "" {
		l.groupRate = s.groupRates.Of(l.group)
	}
	l.in = oap.NewReader(deadlineReader{l}, oap.MinMaxFrame)
	l.out = oap.NewWriter(&l.writing, oap.MaxFrame)
	l.dead, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // only fail ends it
	l.memory = s.inbound.Open(l.dead, stream.Conn(), l.fail, l.reading.Pause)
	l.in.SetMemory(l.memory)
	return l
}

// run calls read until the session ends. It returns when all its goroutines have
// ended and its resources are released.
func (l *link) run(read func() error) {
	err := l.recoverPanic(read)
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
	l.stopWriter()
	l.fail(err)
	l.releaseFrames(l.egress.take(math.MaxInt), false)
	if wasReady {
		l.svc.m.closed.Inc()
	}
}

// recoverPanic runs a reader or a writer. It turns a panic, which is a bug, into an error
// that ends one session.
func (l *link) recoverPanic(f func() error) error {
	return guard.Guard{Log: l.svc.log, Panics: l.svc.m.panics, Err: errLinkBug}.Run("a session panicked", f, nil)
}

var errLinkBug = status.Errorf(status.Internal,
	"the session failed because of a bug in this node, which was logged; try again")

// graceful reports whether a session that ends with err still writes its answers.
// It does if the stream ended between frames, if it was idle, or after a GOAWAY.
func graceful(err error) bool {
	return errors.Is(err, errEnded) || errors.Is(err, errIdle) || errors.Is(err, errGoneAway)
}

// fail ends the link. Calls in flight get err, and the stream is closed or reset with
// the code of err. Later calls of fail do nothing.
func (l *link) fail(err error) {
	if !l.ended.CompareAndSwap(false, true) {
		return
	}
	l.cancel(err)
	if graceful(err) || errors.Is(err, errStopped) && l.nothingOwed() {
		_ = l.stream.Close() // if closing fails, the stream has already ended
		return
	}
	_ = l.stream.ResetWithError(resetCode(err))
}

// nothingOwed reports whether nothing is in flight or unwritten, so that a close loses no
// answer.
func (l *link) nothingOwed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready && len(l.requests) == 0 && l.unanswered == 0
}

// enter registers a goroutine that queues frames. It returns false if the session
// accepts no more frames. After true the caller must call leave.
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

// helloDone makes the link usable after both HELLOs. maxInflight applies only if this
// node opened the link.
func (l *link) helloDone(said greeting, maxFrame uint32, maxInflight int64, compress bool) {
	l.in.SetMaxFrame(maxFrame)
	l.said, l.compress = said, compress
	if l.opened {
		l.slots = (*limits.Registry)(nil).NewBudget(limits.Spec{Name: "session.max_inflight"}, maxInflight)
	}
	l.maxFrame.Store(maxFrame)
	l.svc.recordMaxFrame(l.stream.Conn(), maxFrame)
	l.mu.Lock()
	l.ready, l.lastActive = true, time.Now()
	l.mu.Unlock()
	l.svc.m.opened.Inc()
}

// ack checks an ACK (OAP1 §6). Sessions send no frame with ACK_REQ, but the counts of
// an ACK must still be valid.
func (l *link) ack(f oap.Frame) error {
	n, err := oap.DecodeAck(f.Payload)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.requests[f.CorrID]
	switch {
	case x == nil:
		return oap.Refuse(oap.ReasonCreditViolation, "corr_id %d is not in flight", f.CorrID)
	case n > x.sent || n < x.acked:
		return oap.Refuse(oap.ReasonCreditViolation, "corr_id %d: %d acknowledged after %d of %d sent",
			f.CorrID, n, x.acked, x.sent)
	}
	x.acked = n
	return nil
}

// grant acknowledges a message of one frame, if the peer asked for credit.
func (l *link) grant(f oap.Frame) error {
	if !f.Flags.Has(oap.FlagAckReq) {
		return nil
	}
	if err := l.peer.permits.acquireForReader(l.dead); err != nil {
		return err
	}
	ack := oap.AckFrame(f.Header, 1)
	o := outgoingFrame(ack.Header)
	o.frame.Payload = ack.Payload
	l.put(o)
	return nil
}
