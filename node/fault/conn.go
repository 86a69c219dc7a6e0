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
	// maxInFlight bounds the queued bytes of a connection; the last piece may exceed it. So a
	// delayed connection carries about 2 MiB per delay.
	maxInFlight = 2 << 20
	// segment is the payload of one TCP segment in bytes, and retransmit the delay of a
	// segment that is lost once.
	segment    = 1448
	retransmit = 200 * time.Millisecond
	// piece is the most bytes that are queued and sent as one; see pieceOf.
	piece = 16 << 10
	// linger is the longest time that Close waits for queued bytes to be sent.
	linger = time.Second
)

// faultyConn is a TCP connection below TLS or Noise. Without a fault it passes reads and
// writes through. With one, Write queues the bytes, and a goroutine sends them in order
// when they are due, until the queue is empty.
//
// One goroutine reads and one writes at a time; TLS and Noise guarantee that.
type faultyConn struct {
	net.Conn
	f    *Links
	peer atomic.Pointer[peer.ID] // nil until the handshake has proved it

	// Only the reader uses these.
	kept    []byte // bytes that were read while the link was cut
	keptErr error  // the error of that read

	reading, writing deadline

	mu sync.Mutex // guards sendQueue; lock: metadata
	sendQueue
	closed chan struct{} // closed by Close
	end    sync.Once
}

// sendQueue holds the bytes that were written and are not sent.
type sendQueue struct {
	queue   []inFlight
	bytes   int           // in queue
	sending bool          // send runs, and the underlying connection has no write deadline
	err     error         // of the first write that failed
	moved   chan struct{} // one token: the queue became shorter
}

// inFlight is a queued piece.
type inFlight struct {
	data  []byte
	since time.Time     // when it was queued
	late  float64       // its share of the jitter, 0 to 1
	stall time.Duration // delay by lost segments
}

// Conn wraps a TCP connection to the peer id, below TLS or Noise. An empty id means that the
// peer is not known yet; the caller then calls prove with its id. prove waits while that
// peer is cut off. Its error says why it stopped waiting.
func (f *Links) Conn(c net.Conn, id peer.ID) (faulty net.Conn, prove func(peer.ID) error) {
	fc := f.conn(c, id)
	return fc, func(id peer.ID) error {
		fc.peer.Store(&id)
		return fc.pass()
	}
}

// conn wraps a TCP connection as Conn does.
func (f *Links) conn(c net.Conn, id peer.ID) *faultyConn {
	fc := &faultyConn{Conn: c, f: f, sendQueue: sendQueue{moved: make(chan struct{}, 1)}, closed: make(chan struct{})}
	fc.reading.init()
	fc.writing.init()
	if id != "" {
		fc.peer.Store(&id)
	}
	return fc
}

// link returns the faults of the link to the peer, nil if it has none.
func (c *faultyConn) link(st *links) *Link {
	if id := c.peer.Load(); id != nil {
		return st.peers[*id]
	}
	return nil
}

// Read implements [net.Conn]. Bytes that arrive while the link is cut, and the end of the
// connection, are held back until the link is no longer cut.
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

// pass waits while the link is cut. Its error says why it stopped waiting: the read deadline
// passed, or the connection or Links was closed.
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

// Write implements [net.Conn]. Queued bytes count as written, like bytes in the buffer of the
// kernel. While maxInFlight bytes are queued, Write waits.
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

// pieceOf returns how many bytes are sent as one: piece, or with a rate the bytes of 50 ms,
// at least a segment and at most piece.
func pieceOf(st *links) int {
	if st.rate == nil {
		return piece
	}
	return int(max(segment, min(piece, st.rate.rate/20)))
}

// enqueue appends a piece to the queue, and starts send if it does not run. The caller holds
// mu.
func (c *faultyConn) enqueue(data []byte, l *Link) {
	in := inFlight{data: data, since: time.Now(), late: rand.Float64()}
	if l != nil {
		if l.Cut {
			c.f.cut.Inc()
		}
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
		// The deadline is for Write, not for send. The write in send returns an error again.
		_ = c.Conn.SetWriteDeadline(time.Time{})
		if !c.f.run(c.send) {
			c.sending, c.queue, c.bytes, c.err = false, nil, 0, net.ErrClosed
		}
	}
}

// stalled returns a random delay of n bytes by lost segments. A lost segment is sent again
// after retransmit; each further loss doubles that time, for six tries at most.
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

// due returns when a piece is to be sent under the faults l. never says that it is not sent,
// because the link is cut or loses everything.
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

// send writes each queued piece when it is due. It returns when the queue is empty or a
// write has failed.
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

// settle notes the end of send: Write writes to the connection directly again. The caller
// holds mu.
func (c *faultyConn) settle() {
	c.sending, c.queue = false, nil
	_ = c.Conn.SetWriteDeadline(c.writing.at())
}

// tell signals that the queue became shorter.
func (c *faultyConn) tell() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// await waits until a piece is due and the rate allows it. It returns false if the
// connection or Links was closed.
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

// Close implements [net.Conn]. It waits up to linger for the queued bytes to be sent, unless
// the link is cut. The remaining bytes are lost.
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

// underWay reports whether bytes are queued and may still be sent.
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
