package conns

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"allium/gateway/server/sockets"
)

// receiveBuffer is the number of bytes that a client's kernel may acknowledge before the client reads any.
// A transfer has them as credit where its rate is compared with those of others.
const receiveBuffer = 16 << 20

// maxUnsent bounds the bytes that the kernel buffers for a client beyond those on their way.
// Without a bound it buffers megabytes for each client, also after the connection is closed.
const maxUnsent = 128 << 10

// sendBuffer bounds the unsent bytes of a connection on systems that do not report what the
// peer acknowledged. There a small buffer lets writes show progress soon.
const sendBuffer = 256 << 10

// StallChecks is the number of checks of a client that takes nothing within the time after
// which it is cut off. So it is cut off at most an eighth of that time late.
const StallChecks = 8

// writesAtEnd bounds a write when the server ends. The last record of TLS must not wait for a client
// that reads slowly.
const writesAtEnd = 20 * time.Millisecond

// progress measures a TCP client by the bytes that it acknowledged. The bytes that the kernel
// accepted tell little: it buffers maxUnsent and what is on its way, or all of sendBuffer, and
// accepts no more before a good part is gone.
//
// A slow client is not cut off: its kernel may acknowledge megabytes at once, and then nothing
// before the client has read them. Only a client that acknowledges no byte for stall is.
//
// The atomic fields may be used from any goroutine. The others belong to the goroutine that
// writes.
type progress struct {
	enabled bool          // the connection is TCP
	stall   time.Duration // the longest time without an acknowledged byte
	written atomic.Int64  // bytes that the kernel accepted
	evicted atomic.Bool   // the connection must write no more

	armed      bool      // the connection has a write deadline, at which it measures
	acked      int64     // bytes acknowledged at ackedAt
	ackedAt    time.Time // when acked was first measured
	measuredAt time.Time // zero before the first measurement
}

// errTransferEvicted is the error of writes to a connection whose transfer was evicted.
var errTransferEvicted = &net.OpError{
	Op: "write", Net: "tcp", Err: errors.New("the transfer was evicted for another client's"),
}

// pastDeadline is a deadline in the past, which ends a read or write at once.
var pastDeadline = time.Unix(1, 0)

// start starts to measure an accepted connection. A connection that is not TCP is not measured.
func (p *progress) start(c net.Conn, stall time.Duration) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	p.enabled, p.stall = true, stall
	if !sockets.ReportsAcked {
		_ = tcp.SetWriteBuffer(sendBuffer) // without it stalled clients are only cut off later
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil { // an error means that it is closed
		_ = raw.Control(func(fd uintptr) { _ = sockets.BoundUnsent(int(fd), maxUnsent) })
	}
}

// judge makes stall the longest time without an acknowledged byte.
func (p *progress) judge(stall time.Duration) {
	p.armed = p.armed && p.stall == stall
	p.stall = stall
}

// measure notes that the client has acknowledged acked bytes until now. It returns the time until
// the next measurement, or 0 if the client has acknowledged none for too long.
func (p *progress) measure(acked int64, now time.Time) time.Duration {
	check := p.stall / StallChecks
	if acked != p.acked || now.Sub(p.measuredAt) > 2*check { // or writes succeeded since
		p.acked, p.ackedAt = acked, now
	}
	p.measuredAt = now
	return max(0, min(check, p.stall-now.Sub(p.ackedAt)))
}

// acknowledged returns how many written bytes the peer acknowledged. On systems that do not
// report it, it returns how many the kernel accepted.
func (c *Conn) acknowledged() int64 {
	return c.progress.written.Load() - c.unacknowledged()
}

// unacknowledged returns how many bytes the kernel buffers for the peer, or 0 if the system does
// not report it.
func (c *Conn) unacknowledged() int64 {
	sc, isSocket := c.Conn.(syscall.Conn)
	if !isSocket {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	left := 0
	_ = raw.Control(func(fd uintptr) { left, _ = sockets.Unacked(int(fd)) })
	return int64(left)
}

// Write sends p, or buffers it until the next write; see HeaderWriter. A write that runs into
// its deadline continues while the client makes progress.
func (c *Conn) Write(p []byte) (n int, err error) {
	if !c.progress.enabled {
		return c.send(p)
	}
	if c.cut() {
		return 0, errTransferEvicted
	}
	if c.halfClosed.over.Load() { // what the kernel does not take at once is not waited for
		_ = c.Conn.SetWriteDeadline(time.Now().Add(writesAtEnd))
	}
	n, err = c.send(p)
	for err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.extendDeadline() {
		var more int
		more, err = c.send(p[n:])
		n += more
	}
	if err != nil {
		c.header.pending = nil // the connection writes no more
	}
	return n, err
}

// armDeadline sets a write deadline, unless there is one. A deadline outlives its request: the write that
// runs into it continues if the client makes progress, so only one write in a while renews it.
func (c *Conn) armDeadline() {
	if !c.progress.armed {
		c.progress.armed = c.Conn.SetWriteDeadline(time.Now().Add(c.progress.stall/StallChecks)) == nil
	}
}

// SetWriteDeadline sets the deadline of writes. net/http clears it after each answer of HTTP/1, which a
// connection that measures progress ignores.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && c.progress.armed {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// extendDeadline sets a new deadline for a write that ran into its old one. It returns false if
// the client stands still or the connection was evicted.
func (c *Conn) extendDeadline() bool {
	if c.cut() || c.halfClosed.over.Load() {
		return false
	}
	now := time.Now()
	wait := c.progress.measure(c.acknowledged(), now)
	if wait <= 0 {
		c.EndWrites() // also for the last record of TLS
		return false
	}
	// EndWrites may have set its deadline before this one.
	return c.Conn.SetWriteDeadline(now.Add(wait)) == nil && !c.cut()
}

// cut reports whether the connection must write no more.
func (c *Conn) cut() bool { return c.progress.evicted.Load() || c.evicted.Load() }

// EndWrites makes the current write and all later ones fail at once, and the connection end
// with a reset. It may be called from any goroutine.
func (c *Conn) EndWrites() {
	c.progress.evicted.Store(true)
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.SetWriteDeadline(pastDeadline)
}
