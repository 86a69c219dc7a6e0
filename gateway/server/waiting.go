package server

import (
	"maps"
	"net"
	"net/netip"
	"sync"

	"allium/internal/linked"
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
	fresh linked.List[conn]    // no request yet
	idle  linked.List[conn]    // between requests

	leaving int // made room, and are not closed yet; at most maxLeaving
}

func newWaiting() *waiting { return &waiting{each: map[netip.Prefix]int{}} }

// connState is what a waiting knows of a connection; guarded by its mu.
type connState struct {
	list     *linked.List[conn] // nil: in none
	node     linked.Node[conn]
	requests int  // being answered; more than one on HTTP/2
	served   bool // had a request
	gone     bool // closed, or chosen to make room
	leaving  bool // chosen to make room, and not closed yet
}

// add lists a connection that was accepted.
func (w *waiting) add(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each[c.group]++
	c.enter(&w.fresh)
}

// begin notes that the header of a request of c was read; false: c had to make
// room meanwhile.
func (w *waiting) begin(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.gone {
		return false
	}
	c.unlist()
	c.requests++
	c.served = true
	return true
}

// end notes that a request of c is answered.
func (w *waiting) end(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.requests--; c.requests == 0 && !c.gone {
		c.enter(&w.idle)
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
	c.unlist()
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
	if c, reason = oldest(&w.fresh, may), "slow_evicted"; c == nil {
		c, reason = oldest(&w.idle, may), "idle_evicted"
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

// excess weighs the clients that have more connections than client even when one
// changes hands: by how many. It is nil for a client that has not few.
func (w *waiting) excess(client netip.Prefix) func(group netip.Prefix, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.each[client] + 1
	if own > few {
		return nil
	}
	each := maps.Clone(w.each)
	return func(group netip.Prefix, _ int) int { return max(0, each[group]-own) }
}

// leave takes out c, which is in a request, to make room; false: it is gone, or
// too many are leaving already.
func (w *waiting) leave(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.gone || w.leaving >= maxLeaving {
		return false
	}
	w.forget(c)
	c.leaving = true
	w.leaving++
	return true
}

// oldest is the oldest of the list that may, among the first few.
func oldest(l *linked.List[conn], may func(*conn) bool) *conn {
	looked := 0
	for c := range l.FromOldest {
		if may(c) {
			return c
		}
		if looked++; looked == maxLook {
			break
		}
	}
	return nil
}

// enter makes c, which is in no list, the latest of l.
func (c *conn) enter(l *linked.List[conn]) {
	c.list = l
	l.Push(&c.node, c)
}

// unlist takes c out of its list, if it is in one.
func (c *conn) unlist() {
	if c.list != nil {
		c.list.Remove(&c.node)
		c.list = nil
	}
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
