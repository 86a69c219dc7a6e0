package testkit

import (
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// timeoutError is the error of a read or write after its deadline.
type timeoutError struct{}

func (timeoutError) Error() string { return "testkit: deadline passed" }

// Timeout implements net.Error.
func (timeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (timeoutError) Temporary() bool { return true }

// pipe is one direction of a stream.
//
// Invariant: unread is the sum of the lengths of queue, plus the bytes written since cut.
type pipe struct {
	opts Options

	mu     sync.Mutex // lock: leaf
	cond   *sync.Cond
	queue  []chunk
	unread int   // bytes that fill the window
	sent   int64 // bytes ever written

	pipeEnds
	cut bool // written bytes are dropped but still fill the window, as if the reader had stopped

	readDeadline, writeDeadline deadline
}

// pipeEnds is the state of the two ends of a pipe.
type pipeEnds struct {
	writeClosed bool  // the writer closed its end
	readClosed  bool  // the reader closed its end; written bytes are dropped
	readErr     error // error of reads after a reset or the reader's close
	writeErr    error // error of writes after a reset or the writer's close
}

// chunk is bytes in flight from one write.
type chunk struct {
	p  []byte
	at time.Time // when they can be read
}

// deadline wakes the waiters of a pipe when it passes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newPipe(o Options) *pipe {
	p := &pipe{opts: o}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readErr != nil:
			return 0, p.readErr
		case p.readDeadline.passed():
			return 0, timeoutError{}
		case len(p.queue) > 0 && !time.Now().Before(p.queue[0].at):
			return p.take(b), nil
		case len(p.queue) > 0:
			p.wakeAt(p.queue[0].at)
		case p.writeClosed:
			return 0, io.EOF
		}
		p.cond.Wait()
	}
}

// take moves bytes of the first chunk to b, at most Options.MaxRead, and returns how
// many. The caller holds p.mu.
func (p *pipe) take(b []byte) int {
	if m := p.opts.MaxRead; m > 0 && len(b) > m {
		b = b[:m]
	}
	c := &p.queue[0]
	n := copy(b, c.p)
	c.p = c.p[n:]
	if len(c.p) == 0 {
		p.queue = p.queue[1:]
	}
	p.unread -= n
	p.cond.Broadcast()
	return n
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for {
		switch {
		case p.writeErr != nil:
			return n, p.writeErr
		case p.writeDeadline.passed():
			return n, timeoutError{}
		case n == len(b):
			return n, nil
		case p.readClosed:
			return len(b), nil
		}
		window := p.opts.Window - p.unread
		if c := p.opts.CutAfter; c > 0 {
			if p.cut = p.cut || p.sent >= c; !p.cut {
				window = min(window, int(c-p.sent))
			}
		}
		m := min(window, len(b)-n)
		if m <= 0 {
			p.cond.Wait()
			continue
		}
		// Dropped bytes still fill the window, as with a peer that does not read.
		p.unread += m
		p.sent += int64(m)
		if !p.cut {
			p.queue = append(p.queue, chunk{append([]byte(nil), b[n:n+m]...), time.Now().Add(p.opts.Latency)})
			p.cond.Broadcast()
		}
		n += m
	}
}

// wakeAt wakes all waiters at t.
func (p *pipe) wakeAt(t time.Time) {
	time.AfterFunc(time.Until(t), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cond.Broadcast()
	})
}

// update changes the state under the lock and wakes everyone.
func (p *pipe) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.cond.Broadcast()
}

// clear removes a deadline and stops its timer, which would keep the pipe in memory.
func (d *deadline) clear() {
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = deadline{}
}

// set sets a deadline of the pipe. The zero time removes it. It does nothing for an
// end that was closed or reset.
func (p *pipe) set(d *deadline, t time.Time) {
	p.update(func() {
		d.clear()
		if d == &p.readDeadline && p.readErr != nil || d == &p.writeDeadline && p.writeErr != nil {
			return
		}
		d.at = t
		if !t.IsZero() {
			d.timer = time.AfterFunc(time.Until(t), func() { p.update(func() {}) })
		}
	})
}

// reset fails reads and writes with code. The error of each end says whether the other
// end did the reset. Unread bytes are dropped.
func (p *pipe) reset(code network.StreamErrorCode, byReader bool) {
	p.update(func() {
		if p.readErr == nil {
			p.readErr = &network.StreamError{ErrorCode: code, Remote: !byReader}
		}
		if p.writeErr == nil {
			p.writeErr = &network.StreamError{ErrorCode: code, Remote: byReader}
		}
		p.queue, p.unread = nil, 0
		p.readDeadline.clear()
		p.writeDeadline.clear()
	})
}
