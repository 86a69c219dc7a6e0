package p2p

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// tlsTransport is the library's TLS transport with fewer system calls: it sends all
// records of one Write together. crypto/tls makes one system call for each record, of at
// most 16 KiB. The bytes on the wire are the same.
type tlsTransport struct{ *tls.Transport }

func newTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*tlsTransport, error) {
	t, err := tls.New(id, key, muxers)
	return &tlsTransport{t}, err
}

// SecureInbound implements [sec.SecureTransport].
func (t *tlsTransport) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return gathered(insecure, func(c net.Conn) (sec.SecureConn, error) { return t.Transport.SecureInbound(ctx, c, p) })
}

// SecureOutbound implements [sec.SecureTransport].
func (t *tlsTransport) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return gathered(insecure, func(c net.Conn) (sec.SecureConn, error) { return t.Transport.SecureOutbound(ctx, c, p) })
}

// gathered runs a TLS handshake with secure over a gather of insecure.
func gathered(insecure net.Conn, secure func(net.Conn) (sec.SecureConn, error)) (sec.SecureConn, error) {
	g := &gather{Conn: insecure, lock: make(chan struct{}, 1)} // bound: 1, it is a lock
	c, err := secure(g)
	if err != nil {
		return nil, err
	}
	return &gatheredConn{SecureConn: c, below: g}, nil
}

// gatheredConn is a TLS connection over a [gather].
type gatheredConn struct {
	sec.SecureConn
	below   *gather
	writing atomic.Int32 // running calls of Write that gather records
}

// worthGathering is the length in bytes above which a write is gathered. A longer one may
// become several records: the first records of a connection are as short as a packet.
const worthGathering = 1 << 10

// Write implements [net.Conn]. After an error the connection cannot be used any more, as
// with crypto/tls.
func (c *gatheredConn) Write(p []byte) (int, error) {
	if len(p) <= worthGathering {
		return c.SecureConn.Write(p)
	}
	c.writing.Add(1)
	defer c.writing.Add(-1)
	c.below.begin()
	n, err := c.SecureConn.Write(p)
	if flushErr := c.below.flush(); flushErr != nil && err == nil {
		return 0, flushErr
	}
	return n, err
}

// Close implements [net.Conn]. While a Write runs, Close closes the connection below at
// once: like crypto/tls it does not wait behind a blocked Write to send its closing alert.
func (c *gatheredConn) Close() error {
	if c.writing.Load() > 0 {
		_ = c.below.Conn.Close() // SecureConn.Close closes it again and returns the error
	}
	return c.SecureConn.Close()
}

// gatherBytes is the size of a buffer: one yamux message and the overhead of its records.
const gatherBytes = muxMessage + 1<<10

var gatherBuffers = sync.Pool{New: func() any { return new([gatherBytes]byte) }}

// gather is the connection below TLS. Between begin and flush it collects the written
// records in a buffer. It sends them together at the flush, or earlier when the buffer is
// full.
type gather struct {
	net.Conn
	writers atomic.Int32 // calls of begin without their flush; lowered under lock

	lock chan struct{}      // one token, for the fields below and for writes
	buf  *[gatherBytes]byte // nil while it is empty
	n    int                // bytes of buf in use
	err  error              // of the first write that failed; later records are not sent
}

// begin makes gather collect records until flush is called.
func (g *gather) begin() { g.writers.Add(1) }

// flush sends the collected records and gives the buffer back.
func (g *gather) flush() error {
	g.lock <- struct{}{} // held during a write to the network, which the connection's deadline bounds
	defer func() { <-g.lock }()
	g.writers.Add(-1) // before the send, so that nothing is collected after the last flush
	return g.send()
}

// Write implements [net.Conn].
func (g *gather) Write(p []byte) (int, error) {
	g.lock <- struct{}{} // held as in flush
	defer func() { <-g.lock }()
	if g.writers.Load() == 0 || g.n+len(p) > gatherBytes {
		if err := g.send(); err != nil {
			return 0, err
		}
	}
	if g.writers.Load() == 0 || len(p) > gatherBytes {
		n, err := g.Conn.Write(p)
		g.err = err
		return n, err
	}
	if g.buf == nil {
		g.buf = gatherBuffers.Get().(*[gatherBytes]byte)
	}
	g.n += copy(g.buf[g.n:], p)
	return len(p), nil
}

// send writes out and empties the buffer. The caller holds the lock.
func (g *gather) send() error {
	if g.buf == nil || g.err != nil {
		return g.err
	}
	_, g.err = g.Conn.Write(g.buf[:g.n])
	gatherBuffers.Put(g.buf)
	g.buf, g.n = nil, 0
	return g.err
}
