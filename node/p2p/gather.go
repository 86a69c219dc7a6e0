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

// tlsTransport is the library's TLS with one system call for what is written at
// once: crypto/tls makes one for each record, of at most 16 KiB. What goes over
// the wire is the same.
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

func gathered(insecure net.Conn, secure func(net.Conn) (sec.SecureConn, error)) (sec.SecureConn, error) {
	g := &gather{Conn: insecure, turn: make(chan struct{}, 1)}
	c, err := secure(g)
	if err != nil {
		return nil, err
	}
	return &gatheredConn{SecureConn: c, below: g}, nil
}

// gatheredConn is the secured side of a [gather].
type gatheredConn struct {
	sec.SecureConn
	below   *gather
	writing atomic.Int32 // calls of Write that gather
}

// worthGathering is the length in bytes of a write that may become several
// records: the first ones of a connection are as short as a packet.
const worthGathering = 1 << 10

// Write implements [net.Conn]. After an error the connection is of no use, as
// with crypto/tls.
func (c *gatheredConn) Write(p []byte) (int, error) {
	if len(p) <= worthGathering {
		return c.SecureConn.Write(p)
	}
	c.writing.Add(1)
	defer c.writing.Add(-1)
	c.below.hold()
	n, err := c.SecureConn.Write(p)
	if lost := c.below.flush(); lost != nil && err == nil {
		return 0, lost
	}
	return n, err
}

// Close implements [net.Conn]. Like crypto/tls it does not wait to say goodbye
// behind a write that stands still.
func (c *gatheredConn) Close() error {
	if c.writing.Load() > 0 {
		_ = c.below.Conn.Close() // closed again, with the error, below
	}
	return c.SecureConn.Close()
}

// gatherBytes has room for a yamux message and what its records take beside.
const gatherBytes = muxMessage + 1<<10

var gatherBuffers = sync.Pool{New: func() any { return new([gatherBytes]byte) }}

// gather is the connection below TLS. What is written between hold and flush
// goes out together, as far as it fits the buffer.
type gather struct {
	net.Conn
	holders atomic.Int32 // who will flush; lowered by those who have the turn

	turn chan struct{}      // one token: who holds it uses the fields below and writes
	buf  *[gatherBytes]byte // nil while nothing is gathered
	n    int                // bytes of buf in use
	err  error              // sticky: records are missing from what was sent
}

func (g *gather) hold() { g.holders.Add(1) }

// flush sends what was gathered and gives the buffer back.
func (g *gather) flush() error {
	g.turn <- struct{}{} // held for a write to the network, which has the deadline of the connection
	defer func() { <-g.turn }()
	g.holders.Add(-1) // first: nothing is gathered after the last flush
	return g.send()
}

// Write implements [net.Conn].
func (g *gather) Write(p []byte) (int, error) {
	g.turn <- struct{}{} // likewise
	defer func() { <-g.turn }()
	if g.holders.Load() == 0 || g.n+len(p) > gatherBytes {
		if err := g.send(); err != nil {
			return 0, err
		}
	}
	if g.holders.Load() == 0 || len(p) > gatherBytes {
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

// send writes out and empties the buffer. The caller has the turn.
func (g *gather) send() error {
	if g.buf == nil || g.err != nil {
		return g.err
	}
	_, g.err = g.Conn.Write(g.buf[:g.n])
	gatherBuffers.Put(g.buf)
	g.buf, g.n = nil, 0
	return g.err
}
