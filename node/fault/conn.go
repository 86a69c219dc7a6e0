package fault

import (
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// maxInFlight is how many bytes of a connection are on their way at most,
	// which bounds what a delayed one carries: 2 MiB in each delay.
	maxInFlight = 2 << 20
	// segment is what TCP sends at a time, and retransmit how late a lost one is.
	segment    = 1448
	retransmit = 200 * time.Millisecond
	// piece is how much is held up and let go as one, with a rate less.
	piece = 16 << 10
	// linger is how long Close waits for what is on its way.
	linger = time.Second
)

// faultyConn is a TCP connection below its security. While there is no fault it
// only looks that there is none. With one, what is written is queued and a
// goroutine sends it when it is due, in order, until nothing is queued.
//
// It has one reader and one writer at a time, as both kinds of security promise.
type faultyConn struct {
	net.Conn
	f    *Links
	peer atomic.Pointer[peer.ID] // nil until the handshake tells

	// Of the reader.
	kept    []byte // read while the link was cut
	keptErr error

	reading, writing deadline

	mu sync.Mutex // guards onItsWay
	onItsWay
	closed chan struct{}
	end    sync.Once
}

// onItsWay is what was written and is not sent.
type onItsWay struct {
	queue   []inFlight
	bytes   int           // of queue
	sending bool          // send runs, and has the underlying connection's write deadline
	err     error         // of the first write that failed
	moved   chan struct{} // one token: queue got shorter
}

// inFlight is a piece on its way.
type inFlight struct {
	data  []byte
	since time.Time
	late  float64       // of the jitter, 0 to 1
	stall time.Duration // until a lost segment of it came through
}

// Conn wraps a TCP connection to id, below its security; "" is not known yet. Then
// prove tells who it is, and waits while that peer is cut off: its error is why it
// waits no more.
func (f *Links) Conn(c net.Conn, id peer.ID) (faulty net.Conn, prove func(peer.ID) error) {
	fc := f.conn(c, id)
	return fc, func(id peer.ID) error {
		fc.peer.Store(&id)
		return fc.pass()
	}
}

// conn is Conn.
func (f *Links) conn(c net.Conn, id peer.ID) *faultyConn {
	fc := &faultyConn{Conn: c, f: f, onItsWay: onItsWay{moved: make(chan struct{}, 1)}, closed: make(chan struct{})}
	fc.reading.init()
	fc.writing.init()
	if id != "" {
		fc.peer.Store(&id)
	}
	return fc
}

// link is the link to the peer; nil: it is as it should be.
func (c *faultyConn) link(st *links) *Link {
	if id := c.peer.Load(); id != nil {
		return st.peers[*id]
	}
	return nil
}

// Read implements [net.Conn]. What comes while the link is cut, the end of the
// connection too, waits until it is whole again.
func (c *faultyConn) Read(p []byte) (int, error) {
	for {
		if err := c.pass(); err != nil {
			return 0, err
		}
		if len(c.kept) > 0 {
			n := copy(p, c.kept)
			c.kept = c.kept[n:]
			return n, nil
		}
		if err := c.keptErr; err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		if l := c.link(c.f.state.Load()); l == nil || !l.Cut || n == 0 && os.IsTimeout(err) {
			return n, err
		}
		c.f.cut.Inc()
		c.kept = append(c.kept[:0], p[:n]...)
		if err != nil && !os.IsTimeout(err) {
			c.keptErr = err
		}
	}
}

// pass waits while the link is cut; an error is why it waits no more.
func (c *faultyConn) pass() error {
	for {
		st := c.f.state.Load()
		if l := c.link(st); l == nil || !l.Cut {
			return nil
		}
		select {
		case <-st.changed:
		case <-c.reading.passed():
			return os.ErrDeadlineExceeded
		case <-c.closed:
			return net.ErrClosed
		case <-c.f.done:
			return net.ErrClosed
		}
	}
}

// Write implements [net.Conn]. What was queued counts as written, as it does when
// the system has it; then it waits for room.
func (c *faultyConn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		st := c.f.state.Load()
		l := c.link(st)
		c.mu.Lock()
		switch {
		case c.err != nil:
			err = c.err
			c.mu.Unlock()
			return n, err
		case l == nil && st.rate == nil && !c.sending:
			c.mu.Unlock()
			k, err := c.Conn.Write(p[n:])
			return n + k, err
		case c.bytes >= maxInFlight:
			c.mu.Unlock()
			select {
			case <-c.moved:
			case <-c.writing.passed():
				return n, os.ErrDeadlineExceeded
			case <-c.closed:
				return n, net.ErrClosed
			case <-c.f.done:
				return n, net.ErrClosed
			}
			continue
		}
		k := min(len(p)-n, pieceOf(st))
		c.enqueue(append([]byte(nil), p[n:n+k]...), l)
		c.mu.Unlock()
		n += k
	}
	return n, nil
}

// pieceOf is how much is sent as one: with a rate, 50 ms of it.
func pieceOf(st *links) int {
	if st.rate == nil {
		return piece
	}
	return int(max(segment, min(piece, st.rate.rate/20)))
}

// enqueue sends a piece on its way. mu is held.
func (c *faultyConn) enqueue(data []byte, l *Link) {
	in := inFlight{data: data, since: time.Now(), late: rand.Float64()}
	if l != nil {
		in.stall = stalled(l.Loss, len(data))
		if in.stall > 0 {
			c.f.lost.Inc()
		}
		if l.Delay+l.Jitter > 0 {
			c.f.late.Inc()
		}
	}
	c.queue = append(c.queue, in)
	c.bytes += len(data)
	if !c.sending {
		c.sending = true
		_ = c.Conn.SetWriteDeadline(time.Time{}) // it is not send's; an error comes again from the write
		if !c.f.run(c.send) {
			c.sending, c.queue, c.bytes, c.err = false, nil, 0, net.ErrClosed
		}
	}
}

// stalled is how late n bytes come through when packets get lost: a segment that
// gets lost is sent again after a time that doubles with each try, six at most.
func stalled(loss float64, n int) (late time.Duration) {
	if loss <= 0 {
		return 0
	}
	lost := 1 - math.Pow(1-loss, float64((n+segment-1)/segment))
	for again := retransmit; again < retransmit<<6 && rand.Float64() < lost; again *= 2 {
		late += again
		lost = loss
	}
	return late
}

// due is when a piece arrives as things are; never is that the link is cut or
// loses everything.
func (in inFlight) due(l *Link) (at time.Time, never bool) {
	if l == nil {
		return in.since, false
	}
	at = in.since.Add(l.Delay + time.Duration(in.late*float64(l.Jitter)))
	if l.Loss > 0 {
		at = at.Add(in.stall)
	}
	return at, l.Cut || l.Loss >= 1
}

// send writes what is queued when it is due, and ends when nothing is.
func (c *faultyConn) send() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 || c.err != nil {
			c.settle()
			c.mu.Unlock()
			return
		}
		next := c.queue[0]
		c.mu.Unlock()
		err := net.ErrClosed
		if c.await(next) {
			_, err = c.Conn.Write(next.data)
		}
		c.mu.Lock()
		if err != nil {
			c.err, c.queue, c.bytes = err, nil, 0
		} else {
			c.queue[0] = inFlight{}
			c.queue = c.queue[1:]
			c.bytes -= len(next.data)
		}
		c.mu.Unlock()
		c.tell()
	}
}

// settle ends send: writes go straight to the connection again. mu is held.
func (c *faultyConn) settle() {
	c.sending, c.queue = false, nil
	_ = c.Conn.SetWriteDeadline(c.writing.at())
}

func (c *faultyConn) tell() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// await waits until a piece is due and the rate lets it pass; false: the
// connection is closed.
func (c *faultyConn) await(in inFlight) bool {
	for {
		st := c.f.state.Load()
		at, never := in.due(c.link(st))
		if never {
			select {
			case <-st.changed:
				continue
			case <-c.closed:
				return false
			case <-c.f.done:
				return false
			}
		}
		if time.Now().Before(at) {
			if !sleep(at, st.changed, c.closed, c.f.done) {
				return false
			}
			continue
		}
		if st.rate == nil {
			return true
		}
		at, _ = st.rate.reserve(len(in.data), math.MaxInt64)
		if !sleep(at, st.changed, c.closed, c.f.done) {
			return false
		}
		if c.f.state.Load() == st {
			return true
		}
	}
}

// SetDeadline implements [net.Conn].
func (c *faultyConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *faultyConn) SetReadDeadline(t time.Time) error {
	c.reading.set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *faultyConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing.set(t)
	if c.sending {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close implements [net.Conn]. What is on its way has a second to arrive, unless
// the link is cut; the rest is lost.
func (c *faultyConn) Close() error {
	late := time.Now().Add(linger)
	for c.underWay() && sleep(late, c.moved, c.f.done, nil) && time.Now().Before(late) {
	}
	var err error
	c.end.Do(func() {
		close(c.closed)
		c.reading.set(time.Time{})
		c.writing.set(time.Time{})
		err = c.Conn.Close()
	})
	return err
}

// underWay reports whether something is queued that may arrive.
func (c *faultyConn) underWay() bool {
	l := c.link(c.f.state.Load())
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return false
	default:
	}
	return len(c.queue) > 0 && (l == nil || !l.Cut)
}
