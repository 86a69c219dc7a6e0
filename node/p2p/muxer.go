package p2p

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/limits"
)

// maxUnsent is the most bytes of one connection that are queued for its socket. Further writes wait. yamux by itself
// queues 64 messages of up to muxMessage bytes each: over a slow link an answer would wait for 4.5 MiB of other
// streams, in memory that no limit counts.
const maxUnsent = 512 << 10

// maxSmall is the length in bytes of a write that does not wait, such as an answer of few bytes. yamux bounds their
// number.
const maxSmall = 4 << 10

// muxHeader is the length in bytes of the header of a yamux message.
const muxHeader = 12

// boundedMuxer is yamux with a bound on the bytes that it queues for the socket. The bytes on the wire are the same.
type boundedMuxer struct {
	network.Multiplexer
	all   *atomic.Int64 // bytes that wait, of all connections
	usage *limits.Usage
}

func newBoundedMuxer(m network.Multiplexer, conns int64, l *limits.Registry) *boundedMuxer {
	all := new(atomic.Int64)
	return &boundedMuxer{m, all, l.NewUsage(limits.Spec{
		Name: "p2p.unsent_bytes", Path: "streams over TCP → the sockets of their connections",
		Policy: "the write waits until its deadline",
	}, conns*maxUnsent, all.Load)}
}

// NewConn implements [network.Multiplexer].
func (m *boundedMuxer) NewConn(c net.Conn, isServer bool, scope network.PeerScope) (network.MuxedConn, error) {
	q := &unsent{muxer: m}
	muxed, err := m.Multiplexer.NewConn(&unsentConn{c, q}, isServer, scope)
	if err != nil {
		return nil, err
	}
	return &boundedConn{muxed, q}, nil
}

// unsent counts the bytes of one connection that yamux has queued and the socket has not taken yet.
type unsent struct {
	muxer *boundedMuxer

	mu     sync.Mutex // lock: leaf
	n      int64
	closed bool          // the connection is closed: nothing is counted any more
	freed  chan struct{} // closed when there may be a place again; nil: nobody waits
}

// enter counts n bytes and returns nil. If they do not fit, and must is false, it returns a channel that is closed when
// they may.
func (q *unsent) enter(n int64, must bool) (freed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil // the write fails
	}
	if q.n > 0 && q.n+n > maxUnsent && !must {
		if q.freed == nil {
			q.freed = make(chan struct{})
		}
		return q.freed
	}
	q.n += n
	q.muxer.all.Add(n)
	q.muxer.usage.Grown()
	return nil
}

// leave takes n bytes from the count. closes says that the connection is closed, so all of them.
func (q *unsent) leave(n int64, closes bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed = q.closed || closes; q.closed {
		n = q.n
	}
	q.n -= n
	q.muxer.all.Add(-n)
	if q.freed != nil {
		close(q.freed)
		q.freed = nil
	}
}

// unsentConn is the connection below yamux, which writes each message with one call of Write.
type unsentConn struct {
	net.Conn
	unsent *unsent
}

// Write implements [net.Conn].
func (c *unsentConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if body := len(p) - muxHeader; body > 0 {
		c.unsent.leave(int64(body), err != nil)
	}
	return n, err
}

// Close implements [net.Conn].
func (c *unsentConn) Close() error {
	c.unsent.leave(0, true)
	return c.Conn.Close()
}

// boundedConn is a connection whose streams wait for its socket.
type boundedConn struct {
	network.MuxedConn
	unsent *unsent
}

// OpenStream implements [network.MuxedConn].
func (c *boundedConn) OpenStream(ctx context.Context) (network.MuxedStream, error) {
	return c.bounded(c.MuxedConn.OpenStream(ctx))
}

// AcceptStream implements [network.MuxedConn].
func (c *boundedConn) AcceptStream() (network.MuxedStream, error) {
	return c.bounded(c.MuxedConn.AcceptStream())
}

func (c *boundedConn) bounded(st network.MuxedStream, err error) (network.MuxedStream, error) {
	if err != nil {
		return nil, err
	}
	return &boundedStream{MuxedStream: st, unsent: c.unsent}, nil
}

// boundedStream is a stream whose writes wait until the socket has taken enough of what is queued.
type boundedStream struct {
	network.MuxedStream
	unsent *unsent

	mu       sync.Mutex    // lock: leaf
	deadline time.Time     // of writes; zero: none
	ended    bool          // it was reset, or closed for writing
	changed  chan struct{} // closed when one of these changes; nil: nobody waits
}

// Write implements [io.Writer].
func (s *boundedStream) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+muxMessage-muxHeader)]
		if err := s.enter(int64(len(part))); err != nil {
			return n, err
		}
		k, err := s.MuxedStream.Write(part)
		if k < len(part) {
			s.unsent.leave(int64(len(part)-k), false)
		}
		if n += k; err != nil || n == len(p) {
			return n, err
		}
	}
}

// enter waits until n more bytes may be queued, or the stream has ended and a write says why. The error is
// [os.ErrDeadlineExceeded].
func (s *boundedStream) enter(n int64) error {
	for ended := false; ; {
		freed := s.unsent.enter(n, ended || n <= maxSmall)
		if freed == nil {
			return nil
		}
		var deadline time.Time
		var changed <-chan struct{}
		if deadline, ended, changed = s.watch(); ended {
			continue
		}
		var passed <-chan time.Time
		stop := func() bool { return false }
		if !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			passed, stop = timer.C, timer.Stop
		}
		select {
		case <-freed:
		case <-changed:
		case <-passed:
			return os.ErrDeadlineExceeded
		}
		stop()
	}
}

// watch returns the deadline of writes, whether the stream has ended, and a channel that is closed when these change.
func (s *boundedStream) watch() (deadline time.Time, ended bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.deadline, s.ended, s.changed
}

// change notes a deadline of writes, or the end of the stream.
func (s *boundedStream) change(deadline time.Time, ends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline, s.ended = deadline, s.ended || ends
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// SetDeadline implements [network.MuxedStream].
func (s *boundedStream) SetDeadline(t time.Time) error {
	s.change(t, false)
	return s.MuxedStream.SetDeadline(t)
}

// SetWriteDeadline implements [network.MuxedStream].
func (s *boundedStream) SetWriteDeadline(t time.Time) error {
	s.change(t, false)
	return s.MuxedStream.SetWriteDeadline(t)
}

// Close implements [network.MuxedStream].
func (s *boundedStream) Close() error {
	defer s.change(time.Time{}, true)
	return s.MuxedStream.Close()
}

// CloseWrite implements [network.MuxedStream].
func (s *boundedStream) CloseWrite() error {
	defer s.change(time.Time{}, true)
	return s.MuxedStream.CloseWrite()
}

// Reset implements [network.MuxedStream].
func (s *boundedStream) Reset() error {
	defer s.change(time.Time{}, true)
	return s.MuxedStream.Reset()
}

// ResetWithError implements [network.MuxedStream].
func (s *boundedStream) ResetWithError(code network.StreamErrorCode) error {
	defer s.change(time.Time{}, true)
	return s.MuxedStream.ResetWithError(code)
}
