package conns

import (
	"net/netip"
	"sync"
	"time"

	"allium/internal/limits"
	"allium/internal/linked"
)

// Transfers limits the answers of the public listener whose body is being sent. They have a
// limit apart from requests being decided, so that slow readers never take places of those
// (SPEC §2). At the limit, the client with the most transfers, the new one included, loses its
// slowest. So a new client always finds a place. Its methods may be called from any goroutine.
type Transfers struct {
	gate    *limits.Gate
	evicted func()

	mu        sync.Mutex                             // lock: leaf
	perClient map[netip.Prefix]linked.List[Transfer] // no list is empty
}

// NewTransfers returns a limit of most transfers, with a gate of that name in r. It calls evicted for each transfer
// that it evicts.
func NewTransfers(r *limits.Registry, name string, most int64, evicted func()) *Transfers {
	return &Transfers{
		gate: r.NewGate(limits.Spec{
			Name: name, Path: "handlers → clients", Policy: "the client with the most loses its slowest",
		}, most, 0),
		evicted: evicted, perClient: map[netip.Prefix]linked.List[Transfer]{},
	}
}

// Resize makes most the limit. Transfers beyond it stay until they end.
func (ts *Transfers) Resize(most int64) { ts.gate.Resize(most) }

// begin takes a place for t, and evicts another transfer if needed. It returns busy if there
// is no place and nothing to evict.
func (ts *Transfers) begin(t *Transfer) error {
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
func (ts *Transfers) end(t *Transfer) bool {
	if !ts.remove(t) {
		return false
	}
	ts.gate.Leave()
	return true
}

// remove removes t from its list. It returns false if t is in none.
func (ts *Transfers) remove(t *Transfer) bool {
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
func (ts *Transfers) evictFor(newcomer netip.Prefix) bool {
	return ts.evict((*Transfer).any, func(group netip.Prefix, n int) int {
		if group == newcomer {
			return n*2 + 3 // one more, and before its equals
		}
		return n * 2
	})
}

// EvictFetched ends the slowest transfer of fetched content of the client with the most of them, if
// that has more than newcomer will have with another.
func (ts *Transfers) EvictFetched(newcomer netip.Prefix) {
	ts.mu.Lock()
	own := ts.count(newcomer, (*Transfer).isFetched) + 1
	ts.mu.Unlock()
	ts.evict((*Transfer).isFetched, func(_ netip.Prefix, n int) int { return max(0, n-own) })
}

// evict ends the slowest matching transfer of the client with the highest weight, as candidates finds
// it. It returns false if there is none.
func (ts *Transfers) evict(match func(*Transfer) bool, weigh func(group netip.Prefix, n int) int) bool {
	var found [maxCandidates]*Transfer
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
func (ts *Transfers) candidates(
	found []*Transfer, match func(*Transfer) bool, weigh func(group netip.Prefix, n int) int,
) (n int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var most linked.List[Transfer]
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
func (ts *Transfers) count(group netip.Prefix, match func(*Transfer) bool) (n int) {
	l := ts.perClient[group]
	for t := range l.FromOldest {
		if match(t) {
			n++
		}
	}
	return n
}

// slowest returns the transfer with the lowest rate, or nil if ts is empty.
func slowest(ts []*Transfer) (least *Transfer) {
	now, rate := time.Now(), 0.0
	for _, t := range ts {
		if r := t.rate(now); least == nil || r < rate {
			least, rate = t, r
		}
	}
	return least
}
