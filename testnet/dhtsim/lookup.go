package dhtsim

import (
	"math/bits"
	"slices"
	"time"

	"allium/protocols/kad"
)

// lookup is a kad.Lookup in the simulated network.
type lookup struct {
	*kad.Lookup[int32]
	by      int32  // the node that does the lookup
	target  uint64 // place of the key
	key     int32  // index in world.content; -1: the lookup is not for content
	kth     uint64 // distance of the k-th closest node alive when the lookup began
	hops    int    // hops to the first answer from one of the k closest nodes; 0: none yet
	started time.Duration
	due     time.Duration                    // the earliest tick in the queue
	done    func(*lookup, kad.Result[int32]) // called at the end if the node is still alive
}

// start begins a lookup from the peers in seed or, without seed, from the nearest
// peers in the node's table.
func (w *world) start(cfg kad.Config, q kad.Query[int32], l *lookup, seed ...int32) {
	q.Self, q.Seed = l.by, w.rng.Uint64()
	machine, err := kad.New(cfg, q)
	if err != nil {
		panic(err) // the configuration is a constant
	}
	l.Lookup, l.target, l.started = machine, place(q.Target), w.now
	if len(seed) == 0 {
		seed = w.nearest(&w.nodes[l.by], l.target)
	}
	w.act(l, l.Start(w.now, w.peers(seed)))
}

// peers returns the peers with the given ids. The result is valid until the next call.
func (w *world) peers(ids []int32) []kad.Peer[int32] {
	w.closer = w.closer[:0]
	for _, id := range ids {
		w.closer = append(w.closer, w.peer(id))
	}
	return w.closer
}

// act carries out the actions of a lookup. A probe of a node that left gets no answer.
func (w *world) act(l *lookup, actions []kad.Action[int32]) {
	by := &w.nodes[l.by]
	for _, a := range actions {
		switch a.Kind {
		case kad.Probe, kad.Hedge:
			if w.nodes[a.Peer.ID].alive {
				w.at(w.now+w.roundTrip(), event{kind: answer, id: a.Peer.ID, lookup: l})
			}
		case kad.Cancel:
			if l.Result().End == kad.Running { // the probe timed out; it was not canceled by the lookup's end
				w.forget(by, a.Peer.ID)
			}
		case kad.Done:
			if by.alive {
				l.done(l, l.Result())
			}
			return
		}
	}
	if next, more := l.Next(); more && (l.due <= w.now || next < l.due) {
		l.due = next
		w.at(next, event{kind: tick, lookup: l})
	}
}

// tick lets a lookup act on its timers.
func (w *world) tick(l *lookup) {
	if w.nodes[l.by].alive {
		w.act(l, l.Tick(w.now))
	}
}

// answer gives a lookup the answer of a node, and adds both nodes to each other's
// table.
func (w *world) answer(l *lookup, from int32) {
	n, by := &w.nodes[from], &w.nodes[l.by]
	if !n.alive || !by.alive {
		return
	}
	w.learn(n, l.by)
	if _, running := l.Next(); !running {
		return // the lookup ended, so the answer does not arrive
	}
	w.learn(by, from)
	r := kad.Reply[int32]{Closer: w.peers(w.nearest(n, l.target))}
	if l.key >= 0 && slices.Contains(n.records, l.key) {
		r.Providers = 1
	}
	actions := l.Answer(w.now, from, r)
	if l.hops == 0 && n.place^l.target <= l.kth {
		l.hops = l.Result().Hops
	}
	w.act(l, actions)
}

// startPublish lets a random node put a provider record on the k closest nodes that
// answer.
func (w *world) startPublish(key int32) {
	l := &lookup{by: w.anybody(), key: -1}
	l.done = func(_ *lookup, r kad.Result[int32]) {
		for _, p := range r.Closest {
			if n := &w.nodes[p.ID]; n.alive {
				n.records = append(n.records, key)
				w.placed[key] = true
			}
		}
	}
	w.start(kad.Publish(), kad.Query[int32]{Target: w.content[key]}, l)
}

// startFind lets a random node look for a random key that was published. A key whose
// publisher left too early is never searched, so it does not count as a failure.
func (w *world) startFind() {
	key, tries := int32(w.rng.IntN(len(w.content))), 0
	for ; !w.placed[key] && tries < len(w.content); tries++ {
		key = (key + 1) % int32(len(w.content))
	}
	if !w.placed[key] {
		return
	}
	by := w.anybody() // in a tiny network every node may hold the record; then the last one drawn does the lookup
	for tries = 0; slices.Contains(w.nodes[by].records, key) && tries < 100; tries++ {
		by = w.anybody()
	}
	target := w.content[key]
	l := &lookup{by: by, key: key, kth: w.kth(place(target)), done: w.count}
	w.start(kad.Find(), kad.Query[int32]{Target: target, Quorum: kad.FirstProvider()}, l)
}

// join adds a node that knows one random peer.
func (w *world) join() {
	seed := w.anybody()
	id := w.add()
	w.at(w.now+refreshTime, event{kind: refresh, id: id})
	w.lookupSelf(id, seed)
}

// refresh maintains the table of a node: it removes peers that left, and looks up the
// node itself.
func (w *world) refresh(id int32) {
	n := &w.nodes[id]
	for c := range n.buckets {
		n.buckets[c] = slices.DeleteFunc(n.buckets[c], func(p int32) bool { return !w.nodes[p].alive })
	}
	var seed []int32
	if len(w.nearest(n, n.place)) == 0 {
		seed = append(seed, w.anybody()) // stands for a seed of the configuration
	}
	w.lookupSelf(id, seed...)
}

// lookupSelf lets a node look up its own key. So it and its neighbours learn of each other. Then it fills the other
// buckets.
func (w *world) lookupSelf(id int32, seed ...int32) {
	l := &lookup{by: id, key: -1, done: func(l *lookup, _ kad.Result[int32]) { w.fill(l.by) }}
	w.start(kad.Find(), kad.Query[int32]{Target: w.keys[id]}, l, seed...)
}

// fill sends one query for each bucket that has space and that a network of this size
// can fill. Peers in the answer are added if they are alive.
func (w *world) fill(id int32) {
	n := &w.nodes[id]
	depth := min(bits.Len(uint(w.o.Nodes/bucketSize)), maxBuckets-1)
	for c := range depth {
		if len(n.buckets[c]) == bucketSize {
			continue
		}
		shift := 63 - c
		target := (n.place>>shift^1)<<shift | w.rng.Uint64()&(1<<shift-1)
		known := w.nearest(n, target)
		if len(known) == 0 {
			return
		}
		asked := &w.nodes[known[w.rng.IntN(min(len(known), 3))]]
		if !asked.alive {
			continue
		}
		w.learn(asked, id)
		for _, p := range w.nearest(asked, target) {
			if w.nodes[p].alive && p != id {
				w.learn(n, p)
			}
		}
	}
}
