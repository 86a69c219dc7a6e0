package upkeep

import (
	"slices"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep/proofs"
	"allium/store/meta"
)

// inventory holds what this node knows of its objects that have a target: their entries, the coded objects among them,
// and how far the passes over the pins are. Its methods are safe for concurrent use, but for those of table and those
// that say that the caller holds mu.
type inventory struct {
	mu sync.Mutex // lock: leaf
	table
	codings map[b3.Root][]*entry // entries of coding manifests, by the coded object
	pieces  map[b3.Root]int      // of how many of these manifests each outboard and shard is
	before  proofs.Of            // what was proved before a restart of objects that were not found yet
}

func newInventory(t terms) *inventory {
	return &inventory{table: newTable(t), codings: map[b3.Root][]*entry{}, pieces: map[b3.Root]int{}}
}

// Kept is the state of an object that is planned, as this node knows it.
type Kept struct {
	Size  int64             // of a copy, in bytes
	Coded *erasure.Manifest // nil: whole copies are kept
	Own   plan.Piece        // that this node holds, if it does
}

// Kept returns what this node knows of an object that is planned, else not_found.
func (n *inventory) Kept(root b3.Root) (Kept, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.peek(root); e != nil {
		return Kept{e.Object.Size, e.coded, e.Object.Own}, nil
	}
	return Kept{}, notPlanned(root)
}

// with runs f under the lock if e is still the entry of its object.
func (n *inventory) with(e *entry, f func(now time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.active[e.Root] == e {
		n.touch(e)
		f(n.now())
	}
}

// change runs f under the lock with the entry of an object, and reports whether there is one.
func (n *inventory) change(root b3.Root, f func(e *entry, now time.Time)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.find(root)
	if e != nil {
		f(e, n.now())
	}
	return e != nil
}

// isPlanned reports whether an object is planned.
func (n *inventory) isPlanned(root b3.Root) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peek(root) != nil
}

// eachPage calls f for each page that has objects, and says whether its counts are those of a view. f runs under the
// lock; objects that move between two calls may be missed, or seen twice.
func (n *inventory) eachPage(v *plan.View, f func(pg *page, same bool)) {
	for i := range n.pages {
		n.mu.Lock()
		if pg := &n.pages[i]; pg.Page != nil {
			f(pg, pg.view == v.Version())
		}
		n.mu.Unlock()
	}
}

// counts returns how many objects are planned, how many of these are active, and how many the latest pass had no room
// for.
func (n *inventory) counts() (planned, active, unplanned int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.len(), len(n.active), n.leftOut()
}

// set brings the entry of an object up to date and returns it, or nil if the object is not stored or there is no place
// for an entry. coding reports that the entry has become that of a coding manifest.
func (n *inventory) set(root b3.Root, stored, here bool, p piece) (e *entry, coding bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e = n.find(root); e == nil {
		if !stored {
			return nil, false
		}
		if n.crowded() || n.len() >= n.limit {
			n.unplanned++
			return nil, false
		}
		e = &entry{Object: plan.NewObject(root, p.size, n.now()), told: n.pass} // this pass does not forget it
		n.insert(e)
		for _, p := range n.before[root] {
			e.Restore(p, n.p, n.now())
		}
		delete(n.before, root)
	}
	if coding = p.manifest != nil && e.coded == nil; coding {
		n.addCoding(e, p)
	}
	e.Here, e.Own = here, p.held
	return e, coding
}

// ended ends a pass. It returns the objects that this node asked for until now.
func (n *inventory) ended(failed bool) (given []b3.Root) {
	self, now := n.self, n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.skipped = n.unplanned
	n.passes++
	n.before = nil
	if !failed {
		n.endedPages(now)
	}
	for root, e := range n.active {
		seen := e.pass == n.pass
		switch {
		case seen && e.own.Seq > 0, seen && failed:
			e.ask(self, now)
		case failed:
		case e.OwnTarget(self).Wants(): // it was below a directory whose pin is gone, or that of the coded object is
			e.AskOwn(self, meta.Target{}.Next(e.OwnTarget(self), uint64(now.UnixMilli())), now)
			given = append(given, root)
		case n.passes > 1 && e.adopted.Wants() && e.released >= e.adopted.Seq: // it is gone since before the start
			e.AskOwn(self, meta.Target{}.Next(e.adopted, e.released), now)
			given = append(given, root)
		case seen:
			e.ask(self, now)
		case e.told < n.pass:
			n.forget(e)
		}
	}
	return given
}

// addCoding notes that e is a coding manifest. The caller holds mu.
func (n *inventory) addCoding(e *entry, p piece) {
	e.coded, e.Object.Size = p.manifest, p.size
	e.Object.Empty = p.manifest.Empty()
	n.codings[e.coded.Object] = append(n.codings[e.coded.Object], e)
	for _, root := range e.coded.Pieces() {
		n.pieces[root]++
	}
}

// forget forgets an entry. The caller holds mu.
func (n *inventory) forget(e *entry) {
	n.remove(e)
	if e.coded == nil {
		return
	}
	root := e.coded.Object
	left := slices.DeleteFunc(n.codings[root], func(o *entry) bool { return o == e })
	if n.codings[root] = left; len(left) == 0 {
		delete(n.codings, root)
	}
	for _, root := range e.coded.Pieces() {
		if n.pieces[root]--; n.pieces[root] == 0 {
			delete(n.pieces, root)
		}
	}
}

// entryFor returns the entry of an object, or that of the manifest which says how it is coded; nil if there is none. Of
// several it is the one whose target is the newest. The caller holds mu.
func (n *inventory) entryFor(root b3.Root) *entry {
	best := n.peek(root)
	for _, e := range n.codings[root] {
		if best == nil || e.latest() > best.latest() {
			best = e
		}
	}
	return best
}

// coded returns the manifest of the coding that a pin asks for, and whether that is here. seen says that a pass over
// the pins has ended.
func (n *inventory) coded(p meta.Pin) (manifest b3.Root, ok, seen bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.codings[p.Root] {
		if e.takes(p.Target) && e.Here {
			return e.Root, true, true
		}
	}
	return b3.Root{}, false, n.passes > 0
}

// released notes that a target of a coded object was removed at this node.
func (n *inventory) released(p meta.Pin) {
	if meta.OfCluster(p.Label) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.codings[p.Root] {
		e.released = max(e.released, p.Target.Seq)
	}
}

// Coding returns the manifest of a coded object that this node holds a piece of, and the address of that; ok is
// false if there is none.
func (n *inventory) Coding(object b3.Root) (root b3.Root, m *erasure.Manifest, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.codings[object] {
		if e.Here {
			return e.Root, e.coded, true
		}
	}
	return b3.Root{}, nil, false
}

// Codings calls yield for each coded object that this node holds a piece of, until that returns false.
func (n *inventory) Codings(yield func(object b3.Root) bool) {
	n.mu.Lock()
	objects := make([]b3.Root, 0, len(n.codings))
	for root, list := range n.codings {
		if slices.ContainsFunc(list, func(e *entry) bool { return e.Here }) {
			objects = append(objects, root)
		}
	}
	n.mu.Unlock()
	for _, root := range objects {
		if !yield(root) {
			return
		}
	}
}
