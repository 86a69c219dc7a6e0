package conns

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
)

// Conn is an accepted connection. Close frees its place in the limits.
type Conn struct {
	net.Conn
	release    func()
	peer       netip.Addr  // zero on a Unix socket
	timedOut   atomic.Bool // a read ran into its deadline, which tells why a TLS handshake failed
	evicted    atomic.Bool // the connection was evicted: reads and writes fail
	http2      atomic.Bool // it carried a request over HTTP/2
	closed     atomic.Bool // Close was called
	halfClosed *HalfClosed
	header     HeaderWriter
	progress   progress
	reads      uint // number of reads; one goroutine reads at a time
	place
}

// errEvicted is the error of reads on an evicted connection. net/http closes the connection on
// it without an answer. It would answer an io.EOF in the middle of a header.
var errEvicted = &net.OpError{
	Op: "read", Net: "tcp", Err: errors.New("the connection was evicted for another client's"),
}

// readsInARow is the number of reads after which a connection yields the processor.
const readsInARow = 4

// Read reads from the connection and notes a passed deadline. It yields every readsInARow reads:
// the goroutine of a client that sends its next request at once never waits, and would keep its
// core for the scheduler's 10 ms, which raises the p99 latency of all others.
func (c *Conn) Read(p []byte) (int, error) {
	if c.reads++; c.reads%readsInARow == 0 {
		runtime.Gosched()
	}
	n, err := c.Conn.Read(p)
	if c.evicted.Load() {
		return 0, errEvicted
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.timedOut.Store(true)
	}
	return n, err
}

// Close closes the connection, or gives it to halfClosed.
func (c *Conn) Close() error {
	if c.http2.Load() && c.progress.enabled && !c.cut() {
		if c.closed.Swap(true) || c.halfClosed.add(c) {
			return nil
		}
	}
	return c.close()
}

// close closes the connection and frees its place.
func (c *Conn) close() error {
	err := c.Conn.Close()
	if c.queue != nil {
		c.queue.remove(c)
	}
	c.release()
	return err
}

// CloseWrite lets net/http end a connection without a reset, which could destroy its last
// answer.
func (c *Conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Peer returns the address at the other end, which is zero on a Unix socket.
func (c *Conn) Peer() netip.Addr { return c.peer }

// Header returns the writer of the headers of answers, for a connection of HTTP/1 without TLS.
func (c *Conn) Header() *HeaderWriter { return &c.header }

// TimedOut reports whether a read ran into its deadline.
func (c *Conn) TimedOut() bool { return c.timedOut.Load() }

// connKey is the key of a request's *Conn in its context.
type connKey struct{}

// WithConn stores the connection in the context of its requests, below TLS too.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Of returns the connection of a request, or nil in tests without one.
func Of(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// Begin notes that the header of a request was read. It returns false if c was evicted.
func (c *Conn) Begin() bool { return c == nil || c.queue == nil || c.queue.begin(c) }

// End notes that a request was answered.
func (c *Conn) End() {
	if c != nil && c.queue != nil {
		c.queue.end(c)
	}
}
