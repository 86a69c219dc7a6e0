package testkit

import (
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// timeoutError is what a passed deadline gives.
type timeoutError struct{}

func (timeoutError) Error() string { return "testkit: deadline passed" }

// Timeout marks it for os.IsTimeout and net.Error.
func (timeoutError) Timeout() bool { return true }

// Temporary completes net.Error.
func (timeoutError) Temporary() bool { return true }

// pipe is one direction of a stream.
//
// Invariant: held = sum of the lengths of queue.
type pipe struct {
	opts Options

	mu    sync.Mutex
	cond  *sync.Cond
	queue []chunk
	held  int
	sent  int64 // bytes ever written

	eof      bool  // the writer closed
	deaf     bool  // the reader closed: what is written vanishes
	cut      bool  // what is written vanishes and nothing says so
	readErr  error // set by a reset or a close on the reader's side
	writeErr error // the same on the writer's side

	readEnd, writeEnd deadline
}

// chunk is one write on its way.
type chunk struct {
	p  []byte
	at time.Time // when it arrives
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
		case p.readEnd.passed():
			return 0, timeoutError{}
		case len(p.queue) > 0 && !time.Now().Before(p.queue[0].at):
			return p.take(b), nil
		case len(p.queue) > 0:
			p.wakeAt(p.queue[0].at)
		case p.eof:
			return 0, io.EOF
		}
		p.cond.Wait()
	}
}

// take moves bytes of the first chunk to b.
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
	p.held -= n
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
		case p.writeEnd.passed():
			return n, timeoutError{}
		case n == len(b):
			return n, nil
		case p.deaf:
			return len(b), nil
		}
		room := p.opts.Window - p.held
		if c := p.opts.CutAfter; c > 0 {
			if p.cut = p.cut || p.sent >= c; !p.cut {
				room = min(room, int(c-p.sent))
			}
		}
		m := min(room, len(b)-n)
		if m <= 0 {
			p.cond.Wait()
			continue
		}
		// What was cut still fills the window: a peer that does not read.
		p.held += m
		p.sent += int64(m)
		if !p.cut {
			p.queue = append(p.queue, chunk{append([]byte(nil), b[n:n+m]...), time.Now().Add(p.opts.Latency)})
			p.cond.Broadcast()
		}
		n += m
	}
}

// wakeAt broadcasts at t.
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

// clear takes a deadline away, with the timer that would keep the pipe.
func (d *deadline) clear() {
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = deadline{}
}

// set moves a deadline of the pipe. That of a side whose stream ended means
// nothing any more.
func (p *pipe) set(d *deadline, t time.Time) {
	p.update(func() {
		d.clear()
		if d == &p.readEnd && p.readErr != nil || d == &p.writeEnd && p.writeErr != nil {
			return
		}
		d.at = t
		if !t.IsZero() {
			d.timer = time.AfterFunc(time.Until(t), func() { p.update(func() {}) })
		}
	})
}

// reset fails both sides: the reader's error says who reset, as the writer's.
func (p *pipe) reset(code network.StreamErrorCode, byReader bool) {
	p.update(func() {
		if p.readErr == nil {
			p.readErr = &network.StreamError{ErrorCode: code, Remote: !byReader}
		}
		if p.writeErr == nil {
			p.writeErr = &network.StreamError{ErrorCode: code, Remote: byReader}
		}
		p.queue, p.held = nil, 0
		p.readEnd.clear()
		p.writeEnd.clear()
	})
}
