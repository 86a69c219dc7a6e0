package server

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// lump is how many bytes a slow client may take at once and then nothing for as
// long as they take at min_rate: a TCP receiver whose window is closed opens it
// again only when a good part of its buffer is free.
const lump = 128 << 10

// maxUnsent is how much the kernel takes for a client beyond what is on its way.
// It would take megabytes, which last a slow client for minutes: its answer would
// be over for net/http, which closes an HTTP/2 connection that is idle, and what
// the client sends then makes the kernel throw the rest of the answer away. A
// connection that is closed while megabytes wait would also go on to hold them.
const maxUnsent = 128 << 10

// sendBuffer bounds the unsent bytes of a connection where the system does not
// tell what the peer has acknowledged: a write then shows progress soon.
const sendBuffer = 256 << 10

// paceLimits say how slowly a client may take an answer.
type paceLimits struct {
	patience time.Duration // for no progress at all, beside what minRate allows
	minRate  int64         // bytes per second
}

// unsent returns how much the kernel may take for a client beyond what is on its
// way: who keeps minRate takes it in a fourth of the time that it may be idle.
func (l paceLimits) unsent(idle time.Duration) int {
	return int(min(maxUnsent, max(4<<10, float64(l.minRate)*idle.Seconds()/4)))
}

// timeFor returns how long n bytes take at minRate.
func (l paceLimits) timeFor(n int64) time.Duration {
	return time.Duration(float64(n) / float64(l.minRate) * float64(time.Second))
}

// pace judges the client of one TCP connection by the bytes that it has
// acknowledged. What the kernel took says little: it buffers maxUnsent and what is
// on its way, or all of sendBuffer, and takes no more before a good part is gone.
//
// Nothing is measured while writes succeed within their deadline. When one does
// not, the client has credit for a lump at min_rate; each byte that it
// acknowledges adds to that, and time takes from it. Without credit the write
// fails.
//
// All but what is atomic belongs to the one goroutine that writes.
type pace struct {
	limits  paceLimits
	on      bool         // of a TCP connection
	written atomic.Int64 // bytes that the kernel took
	writing atomic.Bool  // a write is going on
	cut     atomic.Bool  // the connection must take no more

	marked time.Time // when acked and credit were right; zero before the first time
	acked  int64
	credit time.Duration
}

// errCut is what writes of a connection fail with that made room for another.
var errCut = &net.OpError{Op: "write", Net: "tcp", Err: errors.New("the transfer made room for another")}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// start begins to judge a TCP connection that was accepted, and that may be idle
// for so long.
func (p *pace) start(c net.Conn, l paceLimits, idle time.Duration) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	p.on, p.limits = true, l
	if !tellsAcked {
		_ = tcp.SetWriteBuffer(sendBuffer) // slow clients are cut off sooner without
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil { // what is closed already needs no bound
		_ = raw.Control(func(fd uintptr) { _ = boundUnsent(int(fd), l.unsent(idle)) })
	}
}

// judge notes what the client has acknowledged until now. It returns how long
// the client may take until the next judgement; 0 or less: it is too slow.
func (p *pace) judge(acked int64, now time.Time) time.Duration {
	if now.Sub(p.marked) > 2*p.limits.patience+p.limits.patience/4 { // writes went well since
		p.credit = p.limits.timeFor(lump)
	} else {
		p.credit += p.limits.timeFor(acked-p.acked) - now.Sub(p.marked)
		p.credit = min(p.credit, p.limits.timeFor(lump)+p.limits.patience)
	}
	p.marked, p.acked = now, acked
	if p.credit <= 0 {
		return 0
	}
	return max(min(p.credit, p.limits.patience), p.limits.patience/16)
}

// acknowledged returns how many bytes of all that were written the peer has, or
// the kernel, where that does not tell.
func (c *conn) acknowledged() int64 {
	written := c.pace.written.Load()
	if left, ok := c.unacknowledged(); ok {
		return written - left
	}
	return written
}

// unacknowledged returns how many bytes the kernel holds for the peer; false: it
// does not tell.
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
	err = raw.Control(func(fd uintptr) { left, outErr = outq(int(fd)) })
	return int64(left), err == nil && outErr == nil
}

// congested reports whether the connection itself may keep an answer waiting, and
// not the window of one HTTP/2 stream: the peer does not have yet all that was
// written. So it is of each that is in use: who asks judges by what is
// acknowledged over time. The connection's own writes are judged by their pace.
func (c *conn) congested() bool {
	if c.pace.writing.Load() {
		return true
	}
	left, ok := c.unacknowledged()
	return ok && left > 0
}

// Write sends p, or holds it until the next write; see whole. A write that runs
// into its deadline goes on while the client keeps pace.
func (c *conn) Write(p []byte) (n int, err error) {
	if !c.pace.on {
		return c.send(p)
	}
	if c.pace.cut.Load() {
		return 0, errCut
	}
	c.pace.writing.Store(true)
	n, err = c.send(p)
	for err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.goesOn() {
		var more int
		more, err = c.resume(p[n:])
		n += more
	}
	c.pace.writing.Store(false)
	if err != nil {
		c.joined.held = nil // nobody writes again
	}
	return n, err
}

// goesOn reports whether a write that ran into its deadline may go on, and gives
// it a new one.
func (c *conn) goesOn() bool {
	if c.pace.cut.Load() {
		return false
	}
	now := time.Now()
	wait := c.pace.judge(c.acknowledged(), now)
	if wait <= 0 || c.Conn.SetWriteDeadline(now.Add(wait)) != nil {
		return false
	}
	return !c.pace.cut.Load() // whoever set it has set a deadline too, and maybe before
}

// endWrites makes the write that goes on, and all later ones, fail at once, and
// the connection end with a reset.
func (c *conn) endWrites() {
	c.pace.cut.Store(true)
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.SetWriteDeadline(past)
}
