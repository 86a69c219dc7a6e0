package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"allium/gateway/server/sockets"
	"allium/internal/limits"
)

// boundedListener is a listener that closes connections above its limits right after accept.
type boundedListener struct {
	net.Listener
	gate          *limits.Gate
	perIP         *limits.KeyedGate[netip.Prefix] // nil: no limit per client
	exempt        func() proxies                  // addresses without a limit per client, as they carry many clients
	evictable     *evictQueue                     // nil: no connection is evicted
	onReject      func(reason string)
	stall         time.Duration // the longest time in which a client takes nothing
	transfers     []*transfers  // the transfers to evict if no connection is idle
	halfClosed    *halfClosed
	onForeignUser func(error) // called when another user's process connects to the socket
}

// Accept returns the next connection within the limits.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := sockets.Allowed(c); err != nil {
			l.onForeignUser(err)
			l.refuse(c, "peer_uid")
			continue
		}
		peer := parseAddrPort(c.RemoteAddr().String())
		perIP := l.perIP
		if l.exempt().trust(peer) {
			perIP = nil
		}
		group := groupOf(peer)
		leave, err := perIP.Enter(group)
		if err != nil {
			l.refuse(c, "conns_per_ip")
			continue
		}
		release, err := l.gate.TryAcquire()
		if err != nil && l.evictFor(group) {
			release, err = l.gate.TryAcquire()
		}
		if err != nil {
			leave()
			l.refuse(c, "conns")
			continue
		}
		c = sockets.WithFiles(c)
		k := &conn{Conn: c, peer: peer, group: group, evictQueue: l.evictable, halfClosed: l.halfClosed}
		k.progress.start(c, l.stall)
		k.release = sync.OnceFunc(func() {
			leave()
			release()
		})
		if k.evictQueue != nil {
			k.evictQueue.add(k)
		}
		return k, nil
	}
}

// evictFor evicts a connection for one more connection of client. Its place is free at once.
// It returns false if no connection may be evicted.
func (l *boundedListener) evictFor(client netip.Prefix) bool {
	if l.evictable == nil {
		return false
	}
	c, reason := l.evictable.evictIdle(client)
	if c == nil {
		if c = l.evictSlowest(client); c == nil {
			return false
		}
		reason = "transfer_evicted"
		c.endWrites()
	}
	l.onReject(reason)
	c.evicted.Store(true)
	interrupt(c.Conn)
	c.release()
	return true
}

// evictSlowest removes and returns the connection of the slowest transfer of the client that
// exceeds client's connections most. It returns nil if there is none.
func (l *boundedListener) evictSlowest(client netip.Prefix) *conn {
	weigh := l.evictable.overShare(client)
	if weigh == nil {
		return nil
	}
	for _, ts := range l.transfers {
		var found [maxCandidates]*transfer
		t := slowest(found[:ts.candidates(found[:], (*transfer).any, weigh)])
		if t != nil && t.conn != nil && l.evictable.evictActive(t.conn) {
			return t.conn
		}
	}
	return nil
}

// refuse resets a connection and counts the reason.
func (l *boundedListener) refuse(c net.Conn, reason string) {
	l.onReject(reason)
	reset(c)
}

// conn is an accepted connection. Close frees its place in the limits.
type conn struct {
	net.Conn
	release    func()
	peer       netip.Addr // zero on a Unix socket
	group      netip.Prefix
	evictQueue *evictQueue // nil: the connection is never evicted
	timedOut   atomic.Bool // a read ran into its deadline, which tells why a TLS handshake failed
	evicted    atomic.Bool // the connection was evicted: reads and writes fail
	http2      atomic.Bool // it carried a request over HTTP/2
	closed     atomic.Bool // Close was called
	halfClosed *halfClosed
	header     headerWriter
	progress   progress
	reads      uint // number of reads; one goroutine reads at a time
	connState
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
func (c *conn) Read(p []byte) (int, error) {
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
func (c *conn) Close() error {
	if c.http2.Load() && c.progress.enabled && !c.cut() {
		if c.closed.Swap(true) || c.halfClosed.add(c) {
			return nil
		}
	}
	return c.close()
}

// close closes the connection and frees its place.
func (c *conn) close() error {
	err := c.Conn.Close()
	if c.evictQueue != nil {
		c.evictQueue.remove(c)
	}
	c.release()
	return err
}

// CloseWrite lets net/http end a connection without a reset, which could destroy its last
// answer.
func (c *conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// connKey is the key of a request's *conn in its context.
type connKey struct{}

// withConn stores the connection in the context of its requests, below TLS too.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request, or nil in tests without one.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// begin notes that the header of a request was read. It returns false if c was evicted.
func (c *conn) begin() bool { return c == nil || c.evictQueue == nil || c.evictQueue.begin(c) }

// end notes that a request was answered.
func (c *conn) end() {
	if c != nil && c.evictQueue != nil {
		c.evictQueue.end(c)
	}
}
