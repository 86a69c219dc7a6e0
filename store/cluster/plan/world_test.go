package plan

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// world is a cluster in virtual time: nodes that run the code of this package, a network with
// latency and partitions, and disks that are lost.
type world struct {
	t       fataler
	p       Params
	rng     *rand.Rand
	now     time.Time
	events  eventHeap
	order   int
	nodes   []*node
	rate    int64 // bytes per second that each node sends
	group   map[ID]int
	gone    map[held]gone   // pieces that a fault took, and shards that the whole object replaced
	trace   uint64          // of all that happened
	most    map[b3.Root]int // copies at one time
	sends   int
	moves   int  // sends of Move
	revived bool // disks came back of which members were told that they are empty
	forget  bool // nodes remember no members over a restart
}

type fataler interface{ Fatalf(string, ...any) }

type held struct {
	id   ID
	root b3.Root
}

// gone is a piece that a member no longer has, and when it went.
type gone struct {
	piece Piece
	at    time.Time
}

type node struct {
	id      ID
	member  Member
	alive   bool
	liar    bool // loses what it gets, and says it took it
	life    int  // counts restarts: what an earlier life began has no effect
	cluster *Cluster
	members []Remembered
	objects map[b3.Root]*Object
	disk    map[b3.Root]int64
	piece   map[b3.Root]Piece // of what is on disk
	begun   time.Time         // of this life
	placed  map[b3.Root]bool  // in this life, as in store/cluster/upkeep
	sure    map[b3.Root]bool
	busy    time.Time // until when its pace is used
	moving  time.Time // until when it makes no other move
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newWorld(t fataler, seed uint64) *world {
	return &world{
		t: t, p: TestnetParams(), rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0), rate: 4 << 20,
		group: map[ID]int{}, gone: map[held]gone{}, most: map[b3.Root]int{},
	}
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{w.now.Add(d), w.order, do})
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.events) > 0 && !w.events[0].at.After(end) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

func (w *world) note(what string, n *node, root b3.Root, to ID) {
	for _, s := range []string{what, string(n.id), string(root[:]), string(to)} {
		for i := range len(s) {
			w.trace = mix(w.trace ^ uint64(s[i]))
		}
	}
	w.trace = mix(w.trace ^ uint64(w.now.UnixNano()))
}

func (w *world) add(place Place, capacity uint64) *node {
	n := &node{
		id:   ID(fmt.Sprintf("node-%03d", len(w.nodes))),
		disk: map[b3.Root]int64{}, piece: map[b3.Root]Piece{}, objects: map[b3.Root]*Object{},
	}
	n.member = Member{ID: n.id, Place: place, Capacity: capacity, Free: capacity}
	w.nodes = append(w.nodes, n)
	w.start(n)
	return n
}

// start starts a node with what its disk has.
func (w *world) start(n *node) {
	n.alive = true
	n.life++
	n.cluster = NewCluster(n.id, w.p, w.now)
	n.begun, n.placed, n.sure = w.now, map[b3.Root]bool{}, map[b3.Root]bool{}
	if n.members != nil && !w.forget { // they are remembered, and get a grace
		n.cluster.Restore(n.members, w.now)
	}
	for root, o := range n.objects { // targets are on disk, what was seen is not
		again := NewObject(root, o.Size, w.now)
		again.asked, again.Own = o.Asked(), n.piece[root]
		for i := range again.asked {
			again.asked[i].Since = w.now
		}
		n.objects[root] = again
	}
	life := n.life
	var offer, tick func()
	offer = func() {
		if n.alive && n.life == life {
			for _, other := range w.nodes {
				if w.reach(n, other) {
					_ = other.cluster.Offer(n.member, uint64(w.now.UnixMilli()), w.now)
				}
			}
			w.after(w.p.Grace/4, offer)
		}
	}
	tick = func() {
		if n.alive && n.life == life {
			w.plan(n)
			w.after(w.p.Tick, tick)
		}
	}
	w.after(time.Duration(w.rng.Int64N(int64(w.p.Tick))), offer)
	w.after(w.p.Tick+time.Duration(w.rng.Int64N(int64(w.p.Tick))), tick)
}

func (w *world) reach(a, b *node) bool {
	return a.alive && b.alive && w.group[a.id] == w.group[b.id]
}

func (w *world) stop(n *node) {
	if n.alive {
		n.alive, n.members = false, n.cluster.Remember(w.now)
	}
}

// wipe loses a node's disk.
func (w *world) wipe(n *node) {
	for root := range n.disk {
		w.lose(n, root)
	}
	n.disk, n.piece, n.objects = map[b3.Root]int64{}, map[b3.Root]Piece{}, map[b3.Root]*Object{}
}

// lose notes that a node no longer has the piece that is on its disk.
func (w *world) lose(n *node, root b3.Root) {
	w.gone[held{n.id, root}] = gone{n.piece[root], w.now}
}

func (w *world) find(id ID) *node {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.id == id })
	return w.nodes[i]
}

func (w *world) object(n *node, root b3.Root, size int64) *Object {
	if n.objects[root] == nil {
		n.objects[root] = NewObject(root, size, w.now)
	}
	return n.objects[root]
}

// pin stores an object at a node with a target of copies.
func (w *world) pin(n *node, root b3.Root, size int64, copies int) {
	w.ask(n, root, size, meta.Target{Copies: copies})
}

// ask stores an object at a node with a target.
func (w *world) ask(n *node, root b3.Root, size int64, t meta.Target) {
	if n.disk[root] != 0 && n.piece[root] != Whole {
		w.lose(n, root)
	}
	n.disk[root], n.piece[root] = size, Whole
	o := w.object(n, root, size)
	o.Own = Whole
	var old meta.Target
	for _, a := range o.asked {
		if a.Origin == n.id {
			old = a.Target
		}
	}
	o.AskOwn(n.id, t.Next(old, uint64(w.now.UnixMilli())), w.now)
	n.placed[root], n.sure[root] = false, false
}

// standing returns what a node says of an object that it holds, and checks that what it says is lost is nowhere.
func (w *world) standing(n *node, root b3.Root) Standing {
	v, o := n.cluster.View(w.now), n.objects[root]
	o.Sure = n.sure[root]
	s := o.At(v, w.p, w.now).Standing()
	if s != Lost || w.revived {
		return s
	}
	var there copies
	for _, h := range w.places(root) {
		if v.find(h.id) != nil {
			there = append(there, h)
		}
	}
	if o.readable(there) {
		w.t.Fatalf("%s says that an object is lost, of which there are %v\n%s", n.id, there, w.describe(root))
	}
	return s
}

func (w *world) plan(n *node) {
	v := n.cluster.View(w.now)
	roots := make([]b3.Root, 0, len(n.objects))
	for root := range n.objects {
		roots = append(roots, root)
	}
	slices.SortFunc(roots, meta.CompareRoots)
	for _, root := range roots {
		o := n.objects[root]
		if _, here := n.disk[root]; !here {
			continue // the record of a removed target
		}
		own := o.OwnTarget(n.id)
		o.Awaited = !n.placed[root] && own.Wants() && int64(own.Seq) >= n.begun.UnixMilli()
		for _, a := range o.At(v, w.p, w.now).Plan() {
			w.do(n, o, a)
		}
		n.placed[root] = n.placed[root] || o.Met()
		n.sure[root] = n.sure[root] || o.Met() && o.ProvedSince(n.begun)
		if n.objects[root] == o { // not dropped
			w.standing(n, root)
		}
		if !w.now.Before(n.moving) {
			if a, ok := o.At(v, w.p, w.now).Move(""); ok {
				w.moves++
				n.moving = w.now.Add(4 * time.Duration(o.Size) * time.Second / time.Duration(w.rate))
				w.do(n, o, a)
			}
		}
		for _, s := range o.seen {
			if s.id == n.id {
				w.t.Fatalf("%s plans for itself", n.id)
			}
		}
		if len(o.seen) > MaxSeen {
			w.t.Fatalf("%d members are remembered", len(o.seen))
		}
	}
}

// merge tells b what a knows of an object, and a what b knows.
func (w *world) merge(a, b *node, oa, ob *Object) {
	va, vb := a.cluster.View(w.now), b.cluster.View(w.now)
	ob.At(vb, w.p, w.now).Told(va.Self, oa.At(va, w.p, w.now).Tell())
	oa.At(va, w.p, w.now).Told(vb.Self, ob.At(vb, w.p, w.now).Tell())
}

func (w *world) do(n *node, o *Object, a Action) {
	life, root := n.life, o.Root
	const latency = 40 * time.Millisecond
	// end runs when the answer arrives, if this node still lives.
	end := func(d time.Duration, do func()) {
		w.after(d, func() {
			if n.life == life && n.alive && n.objects[root] == o {
				do()
			}
		})
	}
	if a.Kind == Drop {
		w.note("drop", n, root, "")
		w.drop(n, o)
		return
	}
	to := w.find(a.To)
	switch a.Kind {
	case Challenge:
		end(latency, func() {
			switch {
			case !w.reach(n, to):
				end(w.p.Tick, func() { o.Answered(a.To, Busy, Whole, w.p, w.now) })
				return
			case to.disk[root] == 0:
				o.Answered(a.To, Absent, Whole, w.p, w.now)
			default:
				o.Answered(a.To, to.objects[root].Answer(), to.piece[root], w.p, w.now)
			}
			n.cluster.Contact(a.To, w.now)
			if to.disk[root] != 0 {
				to.objects[root].At(to.cluster.View(w.now), w.p, w.now).Claimed(n.id)
			}
		})
	case Tell:
		end(latency, func() {
			ok := w.reach(n, to)
			if ok && to.objects[root] != nil {
				w.merge(n, to, o, to.objects[root])
			}
			o.TellEnded(a.To, a.Version, ok)
		})
	case AskLease:
		end(latency, func() {
			if w.reach(n, to) && to.disk[root] != 0 {
				to.objects[root].At(to.cluster.View(w.now), w.p, w.now).Claimed(n.id)
				if to.objects[root].At(to.cluster.View(w.now), w.p, w.now).GrantLease(n.id) {
					o.Leased(w.now)
				}
			}
		})
	case Send:
		w.sends++
		w.note("send", n, root, a.To)
		if m, ok := n.cluster.View(w.now).Member(a.To); !ok || !m.takes(o.Size) {
			w.t.Fatalf("%s sends to %s, which takes nothing: %+v", n.id, a.To, m)
		}
		n.busy = later(n.busy, w.now).Add(time.Duration(o.Size) * time.Second / time.Duration(w.rate))
		end(n.busy.Sub(w.now)+latency, func() {
			if !w.reach(n, to) || to.member.Free < uint64(o.Size) || !w.canSend(n, o, a.Piece) {
				o.Sent(a.To, false, w.p, w.now)
				return
			}
			if known := to.objects[root]; known != nil {
				w.merge(n, to, o, known)
				if o.Wanted() == 0 { // it was removed, which this node did not know
					o.Sent(a.To, false, w.p, w.now)
					return
				}
			}
			if !to.liar {
				if to.disk[root] == 0 {
					to.member.Free -= uint64(o.Size)
				}
				there := w.object(to, root, o.Size)
				if to.disk[root] == 0 {
					to.piece[root], there.Own = a.Piece, a.Piece
					delete(w.gone, held{to.id, root})
				}
				to.disk[root] = o.Size
				w.most[root] = max(w.most[root], w.copies(root))
				end(latency, func() {
					if w.reach(n, to) && to.objects[root] == there {
						w.merge(n, to, o, there)
					}
					o.Sent(a.To, true, w.p, w.now)
				})
				return
			}
			o.Sent(a.To, true, w.p, w.now)
		})
	}
}

// drop drops n's copy and checks that this node may: those of others take as many places without it, or took them, and
// went after they were proved: a fault took them, or the whole object replaced a shard.
func (w *world) drop(n *node, o *Object) {
	if want := o.Wanted(); want > 0 {
		var others copies
		for _, other := range w.nodes {
			piece, has := other.piece[o.Root], other.disk[o.Root] != 0
			if g, ok := w.gone[held{other.id, o.Root}]; ok && w.now.Sub(g.at) <= 3*w.p.Tick {
				piece, has = g.piece, true
			}
			if other != n && has {
				others = append(others, holding{other.id, piece})
			}
		}
		if left := others.covered(want); left < append(others, holding{n.id, n.piece[o.Root]}).covered(want) {
			w.t.Fatalf("at %s %s drops a copy of %s, of which then %d are left instead of %d",
				w.now.Sub(time.Unix(1_700_000_000, 0)), n.id, o.Root, left, want)
		}
	}
	delete(n.disk, o.Root)
	n.member.Free += uint64(o.Size)
	if o.Wanted() > 0 {
		delete(n.objects, o.Root)
	}
}

// canSend reports whether a node can send a piece: it has that, or the others that are needed to make it.
func (w *world) canSend(n *node, o *Object, piece Piece) bool {
	if o.data() == 0 || n.piece[o.Root] == piece || n.piece[o.Root] == Whole {
		return true
	}
	var there copies
	for _, x := range w.nodes {
		if w.reach(n, x) && x.disk[o.Root] != 0 {
			there = append(there, holding{x.id, x.piece[o.Root]})
		}
	}
	return there.whole() > 0 || len(there.shards()) >= o.data()
}

// places returns the pieces of an object that are on disks.
func (w *world) places(root b3.Root) (list copies) {
	for _, x := range w.nodes {
		if x.disk[root] != 0 {
			list = append(list, holding{x.id, x.piece[root]})
		}
	}
	return list
}

// copies returns how many nodes hold an object on their disks.
func (w *world) copies(root b3.Root) (n int) {
	for _, x := range w.nodes {
		if x.disk[root] != 0 {
			n++
		}
	}
	return n
}

// describe says which nodes know what of an object.
func (w *world) describe(root b3.Root) (s string) {
	for _, n := range w.nodes {
		if o := n.objects[root]; o != nil {
			s += fmt.Sprintf("%s disk %d leave %v lease %v asked %v\n", n.id, n.disk[root], o.leave, o.lease, o.asked)
			for _, x := range o.seen {
				s += fmt.Sprintf("  %s %d due %s asking %v sending %v\n", x.id, x.proof,
					x.due.Sub(w.now), x.asking, x.sending)
			}
		}
	}
	return s
}
