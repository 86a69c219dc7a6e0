package server

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"allium/gateway/server/sockets"
)

// windowBurst is how many bytes a slow client may acknowledge at once and then pause for as long
// as they take at min_rate. A TCP receiver with a closed window opens it again only when a good
// part of its buffer is free.
const windowBurst = 128 << 10

// maxUnsent bounds the bytes that the kernel buffers for a client beyond those on their way.
// Without a bound it buffers megabytes, which last a slow client for minutes. net/http would
// take the answer for complete and close the HTTP/2 connection as idle. The client's next
// bytes would then make the kernel drop the rest of the answer. A closed connection would
// also hold those megabytes.
const maxUnsent = 128 << 10

// sendBuffer bounds the unsent bytes of a connection on systems that do not report what the
// peer acknowledged. There a small buffer lets writes show progress soon.
const sendBuffer = 256 << 10

// progressLimits say how slowly a client may take an answer.
type progressLimits struct {
	idleTimeout time.Duration // the longest time without progress, beside what minRate allows
	minRate     int64         // bytes per second
}

// unsent returns the bound of unsent bytes in the kernel. A client at minRate takes them in a
// quarter of the connection's idle timeout. It is 4 KiB to maxUnsent.
func (l progressLimits) unsent(idle time.Duration) int {
	return int(min(maxUnsent, max(4<<10, float64(l.minRate)*idle.Seconds()/4)))
}

// timeFor returns the time of n bytes at minRate.
func (l progressLimits) timeFor(n int64) time.Duration {
	return time.Duration(float64(n) / float64(l.minRate) * float64(time.Second))
}

// progress measures a TCP client by the bytes that it acknowledged. The bytes that the kernel
// accepted tell little: it buffers maxUnsent and what is on its way, or all of sendBuffer, and
// accepts no more before a good part is gone.
//
// Nothing is measured while writes succeed within their deadline. After a write that does not,
// the client has credit for windowBurst bytes at min_rate. Each byte that it acknowledges adds
// to the credit, and time takes from it. Without credit the write fails.
//
// The atomic fields may be used from any goroutine. The others belong to the goroutine that
// writes.
type progress struct {
	limits  progressLimits
	enabled bool         // the connection is TCP
	written atomic.Int64 // bytes that the kernel accepted
	writing atomic.Bool  // a write is in progress
	evicted atomic.Bool  // the connection must write no more

	measuredAt time.Time // the time of acked and credit; zero before the first measurement
	acked      int64
	credit     time.Duration
}

// errTransferEvicted is the error of writes to a connection whose transfer was evicted.
var errTransferEvicted = &net.OpError{
	Op: "write", Net: "tcp", Err: errors.New("the transfer was evicted for another client's"),
}

// pastDeadline is a deadline in the past, which ends a read or write at once.
var pastDeadline = time.Unix(1, 0)

// start starts to measure an accepted connection. idle is the connection's idle timeout. A
// connection that is not TCP is not measured.
func (p *progress) start(c net.Conn, l progressLimits, idle time.Duration) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	p.enabled, p.limits = true, l
	if !sockets.ReportsAcked {
		_ = tcp.SetWriteBuffer(sendBuffer) // without it slow clients are only cut off sooner
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil { // an error means that it is closed
		_ = raw.Control(func(fd uintptr) { _ = sockets.BoundUnsent(int(fd), l.unsent(idle)) })
	}
}

// measure notes the bytes that the client acknowledged until now. It returns the time until the
// next measurement, or 0 if the client is too slow.
func (p *progress) measure(acked int64, now time.Time) time.Duration {
	if now.Sub(p.measuredAt) > 2*p.limits.idleTimeout+p.limits.idleTimeout/4 { // writes succeeded since
		p.credit = p.limits.timeFor(windowBurst)
	} else {
		p.credit += p.limits.timeFor(acked-p.acked) - now.Sub(p.measuredAt)
		p.credit = min(p.credit, p.limits.timeFor(windowBurst)+p.limits.idleTimeout)
	}
	p.measuredAt, p.acked = now, acked
	if p.credit <= 0 {
		return 0
	}
	return max(min(p.credit, p.limits.idleTimeout), p.limits.idleTimeout/16)
}

// acknowledged returns how many written bytes the peer acknowledged. On systems that do not
// report it, it returns how many the kernel accepted.
func (c *conn) acknowledged() int64 {
	written := c.progress.written.Load()
	if left, ok := c.unacknowledged(); ok {
		return written - left
	}
	return written
}

// unacknowledged returns how many bytes the kernel buffers for the peer. ok is false if the
// system does not report it.
func (c *conn) unacknowledged() (n int64, ok bool) {
	sc, isSocket := c.Conn.(syscall.Conn)
	if !isSocket {
		return 0, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	left, outErr := 0, error(nil)
	err = raw.Control(func(fd uintptr) { left, outErr = sockets.Unacked(int(fd)) })
	return int64(left), err == nil && outErr == nil
}

// congested reports whether the connection may be what delays an answer, and not the window of
// one HTTP/2 stream: a write is in progress, or the peer has not acknowledged all bytes. That
// is true of every busy connection, so the caller measures what is acknowledged over time.
func (c *conn) congested() bool {
	if c.progress.writing.Load() {
		return true
	}
	left, ok := c.unacknowledged()
	return ok && left > 0
}

// Write sends p, or buffers it until the next write; see writeJoiner. A write that runs into
// its deadline continues while the client makes enough progress.
func (c *conn) Write(p []byte) (n int, err error) {
	if !c.progress.enabled {
		return c.send(p)
	}
	if c.progress.evicted.Load() {
		return 0, errTransferEvicted
	}
	c.progress.writing.Store(true)
	n, err = c.send(p)
	for err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.extendDeadline() {
		var more int
		more, err = c.resume(p[n:])
		n += more
	}
	c.progress.writing.Store(false)
	if err != nil {
		c.joiner.pending = nil // the connection writes no more
	}
	return n, err
}

// extendDeadline sets a new deadline for a write that ran into its old one. It returns false if
// the client is too slow or the transfer was evicted.
func (c *conn) extendDeadline() bool {
	if c.progress.evicted.Load() {
		return false
	}
	now := time.Now()
	wait := c.progress.measure(c.acknowledged(), now)
	if wait <= 0 || c.Conn.SetWriteDeadline(now.Add(wait)) != nil {
		return false
	}
	return !c.progress.evicted.Load() // endWrites may have set its deadline before this one
}

// endWrites makes the current write and all later ones fail at once, and the connection end
// with a reset. It may be called from any goroutine.
func (c *conn) endWrites() {
	c.progress.evicted.Store(true)
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.SetWriteDeadline(pastDeadline)
}
