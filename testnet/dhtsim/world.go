package dhtsim

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"allium/protocols/kad"
	"allium/protocols/status"
)

// world is the state of a run. Only the event of the moment changes it.
type world struct {
	o     Options
	rng   *rand.Rand
	now   time.Duration
	end   time.Duration // nothing recurs after it
	queue queue

	nodes []node    // also those that left
	keys  []kad.Key // of the nodes
	live  []int32   // nodes alive, in no order
	where []int32   // of each node in live, -1: left

	content []kad.Key // the keys that lookups are for
	placed  []bool    // which of them have been published

	tally    tally   // before the disaster
	after    []tally // since it, by window
	struck   time.Duration
	near     []int32           // of nearest
	closer   []kad.Peer[int32] // of an answer
	distance []uint64          // of kth
}

func newWorld(o Options) *world {
	w := &world{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x73696d))}
	for range o.Nodes {
		w.add()
	}
	for i := range min(maxKeys, o.Nodes) {
		w.content = append(w.content, kad.Hash(binary.BigEndian.AppendUint64([]byte("content"), o.Seed^uint64(i)<<32)))
	}
	w.placed = make([]bool, len(w.content))
	w.idealTables()
	for id := range w.live {
		w.at(w.within(0, refreshTime), event{kind: refresh, id: int32(id)})
	}
	w.at(w.untilChurn(), event{kind: churn})
	return w
}

// add makes a node that knows nobody.
func (w *world) add() int32 {
	id := int32(len(w.nodes))
	key := kad.Hash(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, w.o.Seed), uint64(id)))
	w.nodes = append(w.nodes, node{place: place(key), alive: true})
	w.keys = append(w.keys, key)
	w.where = append(w.where, int32(len(w.live)))
	w.live = append(w.live, id)
	return id
}

// leave ends a node, which tells nobody.
func (w *world) leave(id int32) {
	i, last := w.where[id], w.live[len(w.live)-1]
	w.live[i], w.where[last] = last, i
	w.live = w.live[:len(w.live)-1]
	w.where[id] = -1
	w.nodes[id] = node{place: w.nodes[id].place}
}

func place(k kad.Key) uint64 { return binary.BigEndian.Uint64(k[:]) }

func (w *world) peer(id int32) kad.Peer[int32] { return kad.Peer[int32]{ID: id, Key: w.keys[id]} }

func (w *world) anybody() int32 { return w.live[w.rng.IntN(len(w.live))] }

// kth is the distance from the target of the k-th closest node alive.
func (w *world) kth(target uint64) uint64 {
	d := w.distance[:0]
	worst := uint64(math.MaxUint64)
	for _, id := range w.live {
		x := w.nodes[id].place ^ target
		if x >= worst {
			continue
		}
		i, _ := slices.BinarySearch(d, x)
		if len(d) == bucketSize {
			d = d[:bucketSize-1]
		}
		d = slices.Insert(d, i, x)
		if len(d) == bucketSize {
			worst = d[bucketSize-1]
		}
	}
	w.distance = d
	return d[len(d)-1]
}

func (w *world) within(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(to-from)))
}

// untilChurn is when the next node leaves: a Poisson process.
func (w *world) untilChurn() time.Duration {
	rate := w.o.Churn * float64(w.o.Nodes) / float64(time.Hour)
	if rate == 0 {
		return math.MaxInt64
	}
	return w.now + time.Duration(w.rng.ExpFloat64()/rate)
}

// roundTrip is lognormal, median 60 ms, p99 240 ms.
func (w *world) roundTrip() time.Duration {
	return min(time.Duration(float64(60*time.Millisecond)*math.Exp(0.6*w.rng.NormFloat64())), time.Second)
}

// kind of an event.
type kind uint8

const (
	publish  kind = iota // content id
	find                 // by anybody, of anything
	answer               // to lookup, from node id
	tick                 // of lookup
	refresh              // of node id
	churn                // one leaves, one joins
	disaster             // Options.Dead leave
)

type event struct {
	at     time.Duration
	seq    uint64 // events of the same time happen in the order in which they were made
	kind   kind
	id     int32
	lookup *lookup
}

func (w *world) at(at time.Duration, e event) {
	if at == math.MaxInt64 {
		return
	}
	e.at = at
	w.queue.push(e)
}

// run lets events happen until none is left.
func (w *world) run(ctx context.Context) error {
	for n := 0; len(w.queue.heap) > 0; n++ {
		if n%(1<<14) == 0 {
			if ctx.Err() != nil {
				return status.Errorf(status.Canceled, "dhtsim: %w", ctx.Err())
			}
			if w.o.Progress != nil {
				w.o.Progress(w.tally.lookups, w.o.Lookups)
			}
		}
		e := w.queue.pop()
		w.now = e.at
		switch e.kind {
		case publish:
			w.startPublish(e.id)
		case find:
			w.startFind()
		case answer:
			w.answer(e.lookup, e.id)
		case tick:
			w.tick(e.lookup)
		case refresh:
			if w.now < w.end && w.nodes[e.id].alive {
				w.refresh(e.id)
				w.at(w.now+refreshTime, e)
			}
		case churn:
			if w.now < w.end {
				w.leave(w.anybody())
				w.join()
				w.at(w.untilChurn(), event{kind: churn})
			}
		case disaster:
			w.struck = w.now
			for range int(w.o.Dead * float64(len(w.live))) {
				w.leave(w.anybody())
			}
		}
	}
	return nil
}

// queue is a binary heap of events by time.
type queue struct {
	heap []event
	seq  uint64
}

func before(a, b *event) bool { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) < 0 }

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !before(&q.heap[i], &q.heap[up]) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

func (q *queue) pop() event {
	top, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{} // it may be all that holds a lookup
	q.heap = q.heap[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return top
		}
		if down+1 < last && before(&q.heap[down+1], &q.heap[down]) {
			down++
		}
		if !before(&q.heap[down], &q.heap[i]) {
			return top
		}
		q.heap[i], q.heap[down] = q.heap[down], q.heap[i]
		i = down
	}
}
