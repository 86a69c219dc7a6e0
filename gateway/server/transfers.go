package server

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/internal/linked"
)

// inBuffers is how many bytes of a body net/http keeps until its handler has
// returned: to write them never waits for the client.
const inBuffers = 2 << 10

// transfers are the answers of the public listener whose body is under way. They
// are counted apart from requests that are being decided: slow readers take no
// place of those (SPEC §2). Where all places are taken, the client that has
// most, the newcomer included, loses its slowest: so a new client always finds
// a place.
type transfers struct {
	gate    *limits.Gate
	evicted func()

	mu   sync.Mutex
	each map[netip.Prefix]linked.List[transfer] // none is empty
}

// transfer is one of them.
type transfer struct {
	group  netip.Prefix
	conn   *conn        // nil: it cannot be cut
	stream *streamWatch // nil: the connection has this answer alone
	began  time.Time
	base   int64        // what the connection had written before
	bytes  atomic.Int64 // of the body so far
	begun  bool         // owned by the handler's goroutine
	listed bool         // guarded, like node, by the transfers' mu
	node   linked.Node[transfer]
}

func newTransfers(r *limits.Registry, name string, most int64, evicted func()) *transfers {
	return &transfers{
		gate: r.NewGate(limits.Spec{
			Name: name, Path: "handlers → clients", Policy: "the slowest of the client that has most makes room",
		}, most, 0),
		evicted: evicted, each: map[netip.Prefix]linked.List[transfer]{},
	}
}

// begin takes a place, for which another transfer may have to make room.
func (ts *transfers) begin(t *transfer) error {
	err := ts.gate.Enter()
	for range 4 { // others may be quicker to take what became free
		if err == nil || !ts.makeRoom(t.group) {
			break
		}
		err = ts.gate.Enter()
	}
	if err != nil {
		return err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	l := ts.each[t.group]
	l.Push(&t.node, t)
	ts.each[t.group] = l
	t.listed = true
	return nil
}

// end gives the place back; false: it was another's already.
func (ts *transfers) end(t *transfer) bool {
	if !ts.take(t) {
		return false
	}
	ts.gate.Leave()
	return true
}

// take takes t out of its list; false: it is in none.
func (ts *transfers) take(t *transfer) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if !t.listed {
		return false
	}
	t.listed = false
	l := ts.each[t.group]
	if l.Remove(&t.node); l.Len() == 0 {
		delete(ts.each, t.group)
	} else {
		ts.each[t.group] = l
	}
	return true
}

// makeRoom ends the slowest transfer of the client that has most once one more
// of newcomer is counted; among equals it is the newcomer's own.
func (ts *transfers) makeRoom(newcomer netip.Prefix) bool {
	var found [maxLook]*transfer
	n := ts.candidates(found[:], func(group netip.Prefix, n int) int {
		if group == newcomer {
			return n*2 + 3 // one more, and before its equals
		}
		return n * 2
	})
	t := slowest(found[:n])
	if t == nil || !ts.end(t) {
		return t != nil // it has ended meanwhile
	}
	ts.evicted()
	t.cut()
	return true
}

// candidates fills found with the oldest transfers of the client that weighs
// most; a weight of 0 is none.
func (ts *transfers) candidates(found []*transfer, weigh func(group netip.Prefix, n int) int) (n int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var most linked.List[transfer]
	heaviest := 0
	for group, l := range ts.each {
		if w := weigh(group, l.Len()); w > heaviest {
			most, heaviest = l, w
		}
	}
	for t := range most.FromOldest {
		if n == len(found) {
			break
		}
		found[n] = t
		n++
	}
	return n
}

// slowest returns the transfer whose client has acknowledged least per second;
// nil: there is none.
func slowest(ts []*transfer) (least *transfer) {
	now, rate := time.Now(), 0.0
	for _, t := range ts {
		if r := t.rate(now); least == nil || r < rate {
			least, rate = t, r
		}
	}
	return least
}

// rate is how many bytes per second the client has taken. Of an HTTP/2 stream
// only what was written of it is known.
func (t *transfer) rate(now time.Time) float64 {
	took := t.bytes.Load()
	if t.conn != nil && t.stream == nil {
		took = max(0, t.conn.acknowledged()-t.base)
	}
	return float64(took) / max(1, now.Sub(t.began).Seconds())
}

// cut ends the transfer, and with it the connection where that has no other or
// does not take the reset of its stream.
func (t *transfer) cut() {
	switch {
	case t.conn == nil:
	case t.stream != nil:
		t.stream.evictNow()
	default:
		t.conn.endWrites()
	}
}
