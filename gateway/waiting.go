package gateway

import (
	"net"
	"net/netip"
	"sync"
)

// waiting orders the connections of a listener that are in no request, so that
// one of them can make room when it is full: who has sent no header yet first,
// the oldest of them, then who is idle between requests longest. What slow
// clients hold on to never keeps others out: who has more connections makes room
// for who has fewer, and not the other way round, so that those who come back
// at once when they are closed only cost an accept.
type waiting struct {
	mu    sync.Mutex
	each  map[netip.Prefix]int // connections of a client, in requests too
	fresh connList             // no request yet
	idle  connList             // between requests

	leaving int // made room, and are not closed yet; at most maxLeaving
}

func newWaiting() *waiting { return &waiting{each: map[netip.Prefix]int{}} }

// connState is what a waiting knows of a connection; guarded by its mu.
type connState struct {
	list       *connList // nil: in none
	prev, next *conn
	requests   int  // being answered; more than one on HTTP/2
	served     bool // had a request
	gone       bool // closed, or chosen to make room
	leaving    bool // chosen to make room, and not closed yet
}

// add lists a connection that was accepted.
func (w *waiting) add(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each[c.group]++
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

// drop forgets a connection that was closed. It may be called again.
func (w *waiting) drop(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.leaving {
		c.leaving = false
		w.leaving--
	}
	w.forget(c)
}

func (w *waiting) forget(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	c.list.remove(c)
	if w.each[c.group]--; w.each[c.group] == 0 {
		delete(w.each, c.group)
	}
}

// maxLook is how many connections are looked at for one that may make room.
const maxLook = 64

// maxLeaving is how many connections that made room may still be open, beside
// those that the listener may have: each is closed by the goroutine that reads
// it, when its turn comes. Half of them are for clients that have few
// connections, so that a flood of others does not keep them out.
const (
	maxLeaving = 512
	few        = 8
)

// choose takes out the connection that makes room for one more of a client;
// nil: none has to, or too many are leaving already.
func (w *waiting) choose(client netip.Prefix) (c *conn, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if most := maxLeaving; w.leaving >= most || w.leaving >= most/2 && w.each[client] > few {
		return nil, ""
	}
	may := func(c *conn) bool { return w.yields(c, client) }
	if c, reason = w.fresh.oldest(may), "slow_evicted"; c == nil {
		c, reason = w.idle.oldest(may), "idle_evicted"
	}
	if c == nil {
		return nil, ""
	}
	w.forget(c)
	c.leaving = true
	w.leaving++
	return c, reason
}

// yields reports whether c makes room for client: its own does, and that of who
// has more even afterwards.
func (w *waiting) yields(c *conn, client netip.Prefix) bool {
	return c.group == client || w.each[c.group] > w.each[client]+1
}

// connList is a list of connections, the latest first.
type connList struct{ first, last *conn }

// oldest is the oldest of the list that may, among the first few.
func (l *connList) oldest(may func(*conn) bool) *conn {
	c := l.last
	for i := 0; c != nil && i < maxLook; i++ {
		if may(c) {
			return c
		}
		c = c.prev
	}
	return nil
}

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

// interrupt makes whoever reads c close it, with a reset, and waits for nobody:
// Close would return only after the reader's goroutine had its turn, and when
// thousands are ready to run nothing would be accepted meanwhile.
func interrupt(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		_ = tcp.CloseRead()
		return
	}
	c.Close()
}

// reset closes a connection that nobody reads with a reset, which costs the
// least on both ends.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
