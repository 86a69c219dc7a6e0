package conns

import (
	"maps"
	"net"
	"net/netip"
	"sync"

	"allium/internal/linked"
)

// evictQueue orders the connections of a listener that serve no request, to evict one when the
// listener is full. It evicts connections without a first header before idle ones, and the
// oldest first.
//
// A connection is evicted only for its own client, or for a client that has fewer connections.
// So slow clients never keep others out, and an evicted client that reconnects at once costs an
// accept and no more. Its methods may be called from any goroutine.
type evictQueue struct {
	mu        sync.Mutex           // lock: leaf
	perClient map[netip.Prefix]int // connections of a client, those that serve requests too
	fresh     linked.List[Conn]    // connections without a first request
	idle      linked.List[Conn]    // connections between requests

	evicting int // evicted connections that are not closed yet; at most maxEvicting
}

func newEvictQueue() *evictQueue { return &evictQueue{perClient: map[netip.Prefix]int{}} }

// place is the place of a connection in its evictQueue. The fields below group are guarded by the queue's mu.
type place struct {
	queue *evictQueue  // nil: the connection is never evicted
	group netip.Prefix // the client

	list     *linked.List[Conn] // the list that holds the connection; nil: none
	node     linked.Node[Conn]
	requests int  // requests in flight; more than one on HTTP/2
	removed  bool // closed or evicted
	evicting bool // evicted and not closed yet
}

// add adds an accepted connection.
func (w *evictQueue) add(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.perClient[c.group]++
	c.pushTo(&w.fresh)
}

// begin notes that c has read the header of a request. It returns false if c was evicted.
func (w *evictQueue) begin(c *Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.removed {
		return false
	}
	c.unlist()
	c.requests++
	return true
}

// end notes that c has answered a request.
func (w *evictQueue) end(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.requests--; c.requests == 0 && !c.removed {
		c.pushTo(&w.idle)
	}
}

// remove removes a connection that was closed. It may be called again.
func (w *evictQueue) remove(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.evicting {
		c.evicting = false
		w.evicting--
	}
	w.unregister(c)
}

func (w *evictQueue) unregister(c *Conn) {
	if c.removed {
		return
	}
	c.removed = true
	c.unlist()
	if w.perClient[c.group]--; w.perClient[c.group] == 0 {
		delete(w.perClient, c.group)
	}
}

// maxCandidates bounds the connections or transfers compared for one eviction.
const maxCandidates = 64

// maxEvicting bounds the evicted connections that are still open, beside the listener's limit.
// The goroutine that reads a connection closes it when it runs. Half of maxEvicting is for
// clients with at most fewConns connections, so that a flood of others does not keep them out.
const (
	maxEvicting = 512
	fewConns    = 8
)

// evictIdle removes the connection to evict for one more connection of client, and returns the
// reason for the metric. It returns nil if no connection may be evicted, or if too many evicted
// ones are open.
func (w *evictQueue) evictIdle(client netip.Prefix) (c *Conn, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.evicting >= maxEvicting || w.evicting >= maxEvicting/2 && w.perClient[client] > fewConns {
		return nil, ""
	}
	may := func(c *Conn) bool { return w.mayEvict(c, client) }
	if c, reason = oldest(&w.fresh, may), "slow_evicted"; c == nil {
		c, reason = oldest(&w.idle, may), "idle_evicted"
	}
	if c == nil {
		return nil, ""
	}
	w.unregister(c)
	c.evicting = true
	w.evicting++
	return c, reason
}

// mayEvict reports whether c may be evicted for client: c is client's own, or c's client has
// more connections even afterwards.
func (w *evictQueue) mayEvict(c *Conn, client netip.Prefix) bool {
	return c.group == client || w.perClient[c.group] > w.perClient[client]+1
}

// overShare returns a function that weighs a client by how many connections it has more than
// client, after client got one more. It returns nil if client has more than fewConns.
func (w *evictQueue) overShare(client netip.Prefix) func(group netip.Prefix, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.perClient[client] + 1
	if own > fewConns {
		return nil
	}
	each := maps.Clone(w.perClient)
	return func(group netip.Prefix, _ int) int { return max(0, each[group]-own) }
}

// evictActive removes c, which serves a request, to evict it. It returns false if c is closed
// or evicted, or if too many evicted connections are open.
func (w *evictQueue) evictActive(c *Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.removed || w.evicting >= maxEvicting {
		return false
	}
	w.unregister(c)
	c.evicting = true
	w.evicting++
	return true
}

// oldest returns the oldest connection of l for which may returns true, among the oldest
// maxCandidates, or nil.
func oldest(l *linked.List[Conn], may func(*Conn) bool) *Conn {
	looked := 0
	for c := range l.FromOldest {
		if may(c) {
			return c
		}
		if looked++; looked == maxCandidates {
			break
		}
	}
	return nil
}

// pushTo adds c, which is in no list, to l as the newest.
func (c *Conn) pushTo(l *linked.List[Conn]) {
	c.list = l
	l.Push(&c.node, c)
}

// unlist removes c from its list, if it is in one.
func (c *Conn) unlist() {
	if c.list != nil {
		c.list.Remove(&c.node)
		c.list = nil
	}
}

// interrupt makes the goroutine that reads c close it with a reset. It does not wait. Close
// would wait until that goroutine runs, and with thousands of runnable goroutines nothing would
// be accepted meanwhile.
func interrupt(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		_ = tcp.CloseRead()
		return
	}
	c.Close()
}

// reset closes a connection that no goroutine reads. A TCP reset costs least on both ends.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
