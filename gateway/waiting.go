package gateway

import (
	"net"
	"sync"
)

// waiting orders the connections of a listener that are in no request, so that
// one of them can make room when it is full: who has sent no header yet first,
// the oldest of them, then who is idle between requests longest. What slow
// clients hold on to never keeps others out.
type waiting struct {
	mu    sync.Mutex
	fresh connList // no request yet
	idle  connList // between requests
}

// connState is what a waiting knows of a connection; guarded by its mu.
type connState struct {
	list       *connList // nil: in none
	prev, next *conn
	requests   int  // being answered; more than one on HTTP/2
	served     bool // had a request
	gone       bool // closed, or chosen to make room
}

// add lists a connection that was accepted.
func (w *waiting) add(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh.push(c)
}

// begin notes that the header of a request of c was read; false: c had to make
// room meanwhile.
func (w *waiting) begin(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.gone {
		return false
	}
	c.list.remove(c)
	c.requests++
	c.served = true
	return true
}

// end notes that a request of c is answered.
func (w *waiting) end(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.requests--; c.requests == 0 && !c.gone {
		w.idle.push(c)
	}
}

// drop forgets a connection that was closed.
func (w *waiting) drop(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.gone = true
	c.list.remove(c)
}

// choose takes out the connection that has to make room; nil: all are in
// requests.
func (w *waiting) choose() (c *conn, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, reason = w.fresh.last, "slow_evicted"
	if c == nil {
		c, reason = w.idle.last, "idle_evicted"
	}
	if c != nil {
		c.gone = true
		c.list.remove(c)
	}
	return c, reason
}

// connList is a list of connections, the latest first.
type connList struct{ first, last *conn }

func (l *connList) push(c *conn) {
	c.list, c.prev, c.next = l, nil, l.first
	if l.first == nil {
		l.last = c
	} else {
		l.first.prev = c
	}
	l.first = c
}

// remove takes c out of l, which may be nil: then it is in no list.
func (l *connList) remove(c *conn) {
	if l == nil {
		return
	}
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.list, c.prev, c.next = nil, nil, nil
}

// reset closes with a reset, which costs the least on both ends.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
