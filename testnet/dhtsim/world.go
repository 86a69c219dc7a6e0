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

// world is the state of a run. Events change it, one at a time.
type world struct {
	o     Options
	rng   *rand.Rand
	now   time.Duration
	end   time.Duration // churn and refreshes stop then
	queue queue

	nodes []node    // by id, with those that left
	keys  []kad.Key // of the nodes, by id
	live  []int32   // ids of the nodes alive, in no order
	where []int32   // index of each node in live, by id; -1: it left

	content []kad.Key // keys that lookups search for
	placed  []bool    // by index in content: a provider record is stored

	tally    tally             // lookups before the disaster
	after    []tally           // lookups since the disaster, by window
	struck   time.Duration     // when the disaster was; 0: not yet
	near     []int32           // buffer of nearest
	closer   []kad.Peer[int32] // buffer of peers
	distance []uint64          // buffer of kth
}

// newWorld makes the nodes with ideal tables and the keys of the content.
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

// add makes a node with an empty table and returns its id.
func (w *world) add() int32 {
	id := int32(len(w.nodes))
	key := kad.Hash(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, w.o.Seed), uint64(id)))
	w.nodes = append(w.nodes, node{place: place(key), alive: true})
	w.keys = append(w.keys, key)
	w.where = append(w.where, int32(len(w.live)))
	w.live = append(w.live, id)
	return id
}

// leave removes a node. No other node is told.
func (w *world) leave(id int32) {
	i, last := w.where[id], w.live[len(w.live)-1]
	w.live[i], w.where[last] = last, i
	w.live = w.live[:len(w.live)-1]
	w.where[id] = -1
	w.nodes[id] = node{place: w.nodes[id].place}
}

// place returns the first 8 bytes of a key, which stand for it in distances.
func place(k kad.Key) uint64 { return binary.BigEndian.Uint64(k[:]) }

func (w *world) peer(id int32) kad.Peer[int32] { return kad.Peer[int32]{ID: id, Key: w.keys[id]} }

// anybody returns a random node that is alive.
func (w *world) anybody() int32 { return w.live[w.rng.IntN(len(w.live))] }

// kth returns the distance of the target to the k-th closest node alive.
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

// within returns a random time from from to before to.
func (w *world) within(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(to-from)))
}

// untilChurn returns the time at which the next node leaves. Departures are a Poisson
// process. Without churn it returns math.MaxInt64.
func (w *world) untilChurn() time.Duration {
	rate := w.o.Churn * float64(w.o.Nodes) / float64(time.Hour)
	if rate == 0 {
		return math.MaxInt64
	}
	return w.now + time.Duration(w.rng.ExpFloat64()/rate)
}

// roundTrip returns a lognormal time: median 60 ms, p99 240 ms, at most 1 s.
func (w *world) roundTrip() time.Duration {
	return min(time.Duration(float64(60*time.Millisecond)*math.Exp(0.6*w.rng.NormFloat64())), time.Second)
}

// kind of an event.
type kind uint8

const (
	publish  kind = iota // a random node publishes content id
	find                 // a random node looks for a random key
	answer               // node id answers lookup
	tick                 // a timer of lookup expires
	refresh              // node id refreshes its table
	churn                // a random node leaves and a new one joins
	disaster             // the share Options.Dead of the nodes leaves
)

type event struct {
	at     time.Duration
	seq    uint64 // orders events of the same time: first made, first played
	kind   kind
	id     int32
	lookup *lookup
}

// at queues an event. The time math.MaxInt64 means never.
func (w *world) at(at time.Duration, e event) {
	if at == math.MaxInt64 {
		return
	}
	e.at = at
	w.queue.push(e)
}

// run plays events until none is left or ctx ends.
func (w *world) run(ctx context.Context) error {
	for n := 0; len(w.queue.heap) > 0; n++ {
		if n%(1<<14) == 0 {
			if ctx.Err() != nil {
				return status.Errorf(status.Canceled, "the simulation was stopped: %w", ctx.Err())
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
	q.heap[last] = event{} // release the event's lookup
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
