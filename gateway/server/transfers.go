package server

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/internal/linked"
)

// bufferedBytes is the number of bytes of a body that net/http buffers until the handler returns.
// Writing them never waits for the client.
const bufferedBytes = 2 << 10

// transfers limits the answers of the public listener whose body is being sent. They have a
// limit apart from requests being decided, so that slow readers never take places of those
// (SPEC §2). At the limit, the client with the most transfers, the new one included, loses its
// slowest. So a new client always finds a place. Its methods may be called from any goroutine.
type transfers struct {
	gate    *limits.Gate
	evicted func()

	mu        sync.Mutex                             // lock: leaf
	perClient map[netip.Prefix]linked.List[transfer] // no list is empty
}

// transfer is one answer whose body is being sent.
type transfer struct {
	group         netip.Prefix
	conn          *conn        // nil: the transfer cannot be cut
	stream        *streamWatch // nil: the connection carries only this answer
	began         time.Time
	writtenBefore int64        // bytes that the connection had written at began
	bytes         atomic.Int64 // bytes of the body so far
	fetched       bool         // it holds a permit of the fetch gate
	counted       bool         // it holds a place; owned by the handler's goroutine
	listed        bool         // it is in perClient; guarded, like node, by the transfers' mu
	node          linked.Node[transfer]
}

func newTransfers(r *limits.Registry, name string, most int64, evicted func()) *transfers {
	return &transfers{
		gate: r.NewGate(limits.Spec{
			Name: name, Path: "handlers → clients", Policy: "the client with the most loses its slowest",
		}, most, 0),
		evicted: evicted, perClient: map[netip.Prefix]linked.List[transfer]{},
	}
}

// begin takes a place for t, and evicts another transfer if needed. It returns busy if there
// is no place and nothing to evict.
func (ts *transfers) begin(t *transfer) error {
	err := ts.gate.Enter()
	for range 4 { // other goroutines may take the freed place first
		if err == nil || !ts.evictFor(t.group) {
			break
		}
		err = ts.gate.Enter()
	}
	if err != nil {
		return err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	l := ts.perClient[t.group]
	l.Push(&t.node, t)
	ts.perClient[t.group] = l
	t.listed = true
	return nil
}

// end frees t's place. It returns false if t was evicted.
func (ts *transfers) end(t *transfer) bool {
	if !ts.remove(t) {
		return false
	}
	ts.gate.Leave()
	return true
}

// remove removes t from its list. It returns false if t is in none.
func (ts *transfers) remove(t *transfer) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if !t.listed {
		return false
	}
	t.listed = false
	l := ts.perClient[t.group]
	if l.Remove(&t.node); l.Len() == 0 {
		delete(ts.perClient, t.group)
	} else {
		ts.perClient[t.group] = l
	}
	return true
}

// evictFor ends the slowest transfer of the client with the most transfers, with one more
// counted for newcomer. Among equals it ends newcomer's own. It returns false if there is none.
func (ts *transfers) evictFor(newcomer netip.Prefix) bool {
	return ts.evict((*transfer).any, func(group netip.Prefix, n int) int {
		if group == newcomer {
			return n*2 + 3 // one more, and before its equals
		}
		return n * 2
	})
}

// evictFetched ends the slowest transfer of fetched content of the client with the most of them, if
// that has more than newcomer will have with another.
func (ts *transfers) evictFetched(newcomer netip.Prefix) {
	ts.mu.Lock()
	own := ts.count(newcomer, (*transfer).isFetched) + 1
	ts.mu.Unlock()
	ts.evict((*transfer).isFetched, func(_ netip.Prefix, n int) int { return max(0, n-own) })
}

func (t *transfer) any() bool       { return true }
func (t *transfer) isFetched() bool { return t.fetched }

// evict ends the slowest matching transfer of the client with the highest weight, as candidates finds
// it. It returns false if there is none.
func (ts *transfers) evict(match func(*transfer) bool, weigh func(group netip.Prefix, n int) int) bool {
	var found [maxCandidates]*transfer
	t := slowest(found[:ts.candidates(found[:], match, weigh)])
	if t == nil || !ts.end(t) {
		return t != nil // t ended meanwhile and freed its place
	}
	ts.evicted()
	t.cut()
	return true
}

// candidates fills found with the oldest matching transfers of the client with the highest weight,
// and returns how many. weigh gets how many matching ones a client has. A client of weight 0 is never
// chosen.
func (ts *transfers) candidates(
	found []*transfer, match func(*transfer) bool, weigh func(group netip.Prefix, n int) int,
) (n int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var most linked.List[transfer]
	heaviest := 0
	for group, l := range ts.perClient {
		if w := weigh(group, ts.count(group, match)); w > heaviest {
			most, heaviest = l, w
		}
	}
	for t := range most.FromOldest {
		if n == len(found) {
			break
		}
		if match(t) {
			found[n] = t
			n++
		}
	}
	return n
}

// count returns how many matching transfers a client has. The caller holds the lock.
func (ts *transfers) count(group netip.Prefix, match func(*transfer) bool) (n int) {
	l := ts.perClient[group]
	for t := range l.FromOldest {
		if match(t) {
			n++
		}
	}
	return n
}

// slowest returns the transfer with the lowest rate, or nil if ts is empty.
func slowest(ts []*transfer) (least *transfer) {
	now, rate := time.Now(), 0.0
	for _, t := range ts {
		if r := t.rate(now); least == nil || r < rate {
			least, rate = t, r
		}
	}
	return least
}

// rate returns how many bytes per second the client has acknowledged since the transfer began. It
// counts receiveBuffer more, so that a client is not compared by what its kernel took at once. An
// HTTP/2 connection may not have acknowledged the latest bytes of any stream.
func (t *transfer) rate(now time.Time) float64 {
	took := t.bytes.Load()
	switch {
	case t.conn == nil:
	case t.stream != nil:
		took -= t.conn.unacknowledged()
	default:
		took = t.conn.acknowledged() - t.writtenBefore
	}
	return float64(max(0, took)+receiveBuffer) / max(1, now.Sub(t.began).Seconds())
}

// cut ends the transfer. It ends the connection too, if that carries only this answer or does
// not take the reset of the stream.
func (t *transfer) cut() {
	switch {
	case t.conn == nil:
	case t.stream != nil:
		t.stream.evictNow()
	default:
		t.conn.endWrites()
	}
}
