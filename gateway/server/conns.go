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

	"allium/internal/limits"
)

// limited is a listener that closes what is over its bounds before anything is
// spent on it.
type limited struct {
	net.Listener
	gate      *limits.Gate
	perIP     *limits.KeyedGate[netip.Prefix] // nil: not counted
	exempt    proxies                         // addresses that are not counted: many clients come from them
	waiting   *waiting                        // nil: nobody makes room
	reject    func(reason string)
	pace      paceLimits
	idle      time.Duration // how long a connection may be between requests
	transfers []*transfers  // whose connections make room where none waits
	foreign   func(error)   // is told of another user's process at the socket
}

// Accept returns the next connection within the bounds.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := peerAllowed(c); err != nil {
			l.foreign(err)
			l.refuse(c, "peer_uid")
			continue
		}
		peer := parseAddrPort(c.RemoteAddr().String())
		perIP := l.perIP
		if l.exempt.trust(peer) {
			perIP = nil
		}
		group := groupOf(peer)
		leave, err := perIP.Enter(group)
		if err != nil {
			l.refuse(c, "conns_per_ip")
			continue
		}
		release, err := l.gate.TryAcquire()
		if err != nil && l.makeRoom(group) {
			release, err = l.gate.TryAcquire()
		}
		if err != nil {
			leave()
			l.refuse(c, "conns")
			continue
		}
		k := &conn{Conn: c, peer: peer, group: group, waiting: l.waiting}
		k.pace.start(c, l.pace, l.idle)
		k.release = sync.OnceFunc(func() {
			leave()
			release()
		})
		if k.waiting != nil {
			k.waiting.add(k)
		}
		return k, nil
	}
}

// makeRoom ends a connection that waits, for one more of a client; false: there
// is none that has to. Its place is free at once.
func (l *limited) makeRoom(client netip.Prefix) bool {
	if l.waiting == nil {
		return false
	}
	c, reason := l.waiting.choose(client)
	if c == nil {
		if c = l.slowest(client); c == nil {
			return false
		}
		reason = "transfer_evicted"
		c.endWrites()
	}
	l.reject(reason)
	c.ended.Store(true)
	interrupt(c.Conn)
	c.release()
	return true
}

// slowest takes out the connection of the slowest transfer of a client that has
// more connections than client, where every connection is in a request; nil:
// none has to make room.
func (l *limited) slowest(client netip.Prefix) *conn {
	weigh := l.waiting.excess(client)
	if weigh == nil {
		return nil
	}
	for _, ts := range l.transfers {
		var found [maxLook]*transfer
		t := slowest(found[:ts.candidates(found[:], weigh)])
		if t != nil && t.conn != nil && l.waiting.leave(t.conn) {
			return t.conn
		}
	}
	return nil
}

// refuse closes a connection before anything is spent on it.
func (l *limited) refuse(c net.Conn, reason string) {
	l.reject(reason)
	reset(c)
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
	release func()
	peer    netip.Addr // zero on a Unix socket
	group   netip.Prefix
	waiting *waiting    // nil: it never makes room
	late    atomic.Bool // a read ran into its deadline; of use while TLS shakes hands
	ended   atomic.Bool // it has to make room: nothing is read any more
	joined  joined      // of what is written
	pace    pace        // of whoever takes it
	reads   uint        // so far; one goroutine reads at a time
	connState
}

// errMadeRoom is what net/http closes a connection for without an answer; the
// end of input in the middle of a header it would answer.
var errMadeRoom = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the connection made room for another")}

// readsInARow is after how many reads a connection lets others run.
const readsInARow = 4

// Read reads, and notes when the time for it is over. A client that sends its
// next request at once never makes its goroutine wait, which would then keep
// its core for as long as the scheduler lets it, some 10 ms, and be the p99 of
// everyone else.
func (c *conn) Read(p []byte) (int, error) {
	if c.reads++; c.reads%readsInARow == 0 {
		runtime.Gosched()
	}
	n, err := c.Conn.Read(p)
	if c.ended.Load() {
		return 0, errMadeRoom
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.late.Store(true)
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	if c.waiting != nil {
		c.waiting.drop(c)
	}
	c.release()
	return err
}

// CloseWrite lets net/http end a connection without a reset that would destroy
// its last answer.
func (c *conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// connKey is the key of a request's *conn in its context.
type connKey struct{}

// withConn lets requests find the connection that they came on, below TLS too.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection that a request came on, nil where there is none.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// begin notes that the header of a request was read; false: the connection had
// to make room.
func (c *conn) begin() bool { return c == nil || c.waiting == nil || c.waiting.begin(c) }

// end notes that a request is answered.
func (c *conn) end() {
	if c != nil && c.waiting != nil {
		c.waiting.end(c)
	}
}
