package upkeep

import (
	"context"
	"slices"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/meta"
)

// piece is the part of a coded object that this node has.
type piece struct {
	manifest *erasure.Manifest // nil: a plain object
	held     plan.Piece
	ok       bool  // held is there
	size     int64 // bytes that a holder stores
}

// pieceOf returns what this node has of the coded object of a manifest. e is its entry, or nil. What is no manifest
// is no piece.
func (f *finder) pieceOf(ctx context.Context, root b3.Root, e *entry) (p piece, err error) {
	if e != nil && e.coded != nil {
		p.manifest = e.coded
	} else if p.manifest, err = f.deps.Coder.Manifest(ctx, root); err != nil {
		switch status.Of(err) {
		case status.BadRequest, status.Corrupt, status.NotFound:
			f.deps.Log.Debug("a coding manifest cannot be read", "root", root, "err", err)
			return piece{}, nil
		}
		return piece{}, err
	}
	p.size = p.manifest.Bytes() + b3.OutboardSize(p.manifest.Size)
	p.held, p.ok, err = f.deps.Coder.Held(ctx, p.manifest)
	return p, err
}

// addCoding notes that e is a coding manifest.
func (n *inventory) addCoding(e *entry, p piece) {
	e.coded, e.Object.Size = p.manifest, p.size
	e.Object.Empty = p.manifest.Empty()
	n.codings[e.coded.Object] = append(n.codings[e.coded.Object], e)
	for _, root := range e.coded.Pieces() {
		n.pieces[root]++
	}
}

// forget forgets an entry.
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
// several it is the one whose target is the newest.
func (n *inventory) entryFor(root b3.Root) *entry {
	best := n.peek(root)
	for _, e := range n.codings[root] {
		if best == nil || e.latest() > best.latest() {
			best = e
		}
	}
	return best
}

// latest returns the number of the newest target that asks for anything.
func (e *entry) latest() (seq uint64) {
	for _, a := range e.Asked() {
		if a.Target.Wants() {
			seq = max(seq, a.Target.Seq)
		}
	}
	return seq
}

// takes reports whether a target can be one of the entry: shards are of the numbers that the manifest has, and a
// manifest is not kept as copies.
func (e *entry) takes(t meta.Target) bool {
	if !t.Wants() {
		return true
	}
	if e.coded == nil {
		return t.Data == 0
	}
	return t.Data == e.coded.Data && t.Parity == e.coded.Parity
}

// wants notes that a pin of this node asks for copies or shards.
func (e *entry) wants(t meta.Target) {
	if e.coded != nil {
		if t.Data > 0 {
			e.own.Copies, e.own.Data, e.own.Parity = 0, t.Data, t.Parity
		}
		return
	}
	e.own.Copies = max(e.own.Copies, t.Copies)
}

// asCopies returns the pin of a person as it is planned: if shards are asked for, a pin of the coding manifest, or for
// a small object one that asks for copies. ok is false if there is nothing to plan yet. It has a missing manifest
// made.
func (f *finder) asCopies(ctx context.Context, p meta.Pin) (_ meta.Pin, ok bool, err error) {
	if p.Target.Data == 0 {
		return p, true, nil
	}
	info, err := f.deps.Store.Stat(ctx, p.Root)
	switch {
	case status.Of(err) == status.NotFound, status.Of(err) == status.Corrupt, err == nil && info.Corrupt:
		return p, false, nil
	case err != nil:
		return p, false, err
	case info.Size < erasure.MinSize:
		p.Target = meta.Target{Copies: p.Target.Parity + 1, Seq: p.Target.Seq}
		return p, true, nil
	}
	root, coded, seen := f.inv.coded(p)
	c := coding{p.Root, p.Target.Data, p.Target.Parity}
	// Before the first pass has seen all pins, its manifest may be one of them.
	if !coded && seen && f.encodings.begin(c, f.deps.Now()) {
		if root, coded, _ = f.inv.coded(p); coded { // an attempt ended meanwhile
			f.encodings.ended(c, nil, f.deps.Now(), 0)
		} else {
			f.encode(c, p)
		}
	}
	if coded {
		p.Root = root
	}
	return p, coded, nil
}

// coded returns the manifest of the coding that a pin asks for, and whether that is here. seen says that a pass over
// the pins has ended.
func (n *inventory) coded(p meta.Pin) (manifest b3.Root, ok, seen bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.codings[p.Root] {
		if e.takes(p.Target) && e.here {
			return e.Root, true, true
		}
	}
	return b3.Root{}, false, n.passes > 0
}

// encode queues an attempt to make a coding, which has begun.
func (f *finder) encode(c coding, p meta.Pin) {
	job := repair.Job{Kind: repair.Rebuild, Root: c.root, Run: func(ctx context.Context, _ repair.Meter) error {
		err := error(status.Errorf(status.Internal, "the encoding did not end"))
		defer func() { // also after a panic
			if f.encodings.ended(c, err, f.deps.Now(), f.p.Tick); err == nil {
				f.wakeUp()
			}
		}()
		root, err := f.deps.Coder.Encode(ctx, c.root, p.Target)
		if err == nil {
			err = f.planCoding(ctx, root, p)
		}
		return err
	}}
	if !f.deps.Repairs.Queue(job) {
		f.encodings.refused(c, f.deps.Now().Add(f.p.Tick))
	}
}

// planCoding has the coding manifest of an object planned for a pin of that, so that nothing codes the object again.
func (f *finder) planCoding(ctx context.Context, manifest b3.Root, p meta.Pin) error {
	e, err := f.entry(ctx, manifest, true)
	switch {
	case err != nil:
		return err
	case e == nil:
		return status.Errorf(status.Busy, "no room to plan the coding of %s", p.Root)
	}
	return f.raise(ctx, p)
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

// kind returns the kind of repair that a send is.
func (p planned) kind() repair.Kind {
	switch {
	case p.Priority == plan.Moving:
		return repair.Move
	case p.coded != nil:
		return repair.Rebuild
	}
	return repair.Replicate
}

// unpinPieces removes the cluster's pins of what the node holds of a coded object, as far as nothing else that is
// planned needs it.
func (d *dropper) unpinPieces(ctx context.Context, e *entry) error {
	if e.coded == nil {
		return nil
	}
	d.inv.mu.Lock()
	pieces := slices.DeleteFunc(e.coded.Pieces(), func(root b3.Root) bool {
		return d.inv.peek(root) != nil || d.inv.pieces[root] > 1
	})
	d.inv.mu.Unlock()
	for _, root := range pieces {
		if err := d.unpin(ctx, root, []string{meta.ClusterLabel}); err != nil {
			return err
		}
	}
	return nil
}

// Coding returns the manifest of a coded object that this node holds a piece of, and the address of that; ok is
// false if there is none.
func (n *inventory) Coding(object b3.Root) (root b3.Root, m *erasure.Manifest, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.codings[object] {
		if e.here {
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
		if slices.ContainsFunc(list, func(e *entry) bool { return e.here }) {
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

// Holders returns the members that proved a piece of the coded object of a manifest, with that, and whether they
// are present.
func (rs *reports) Holders(manifest b3.Root) []plan.Holder {
	v := rs.deps.View()
	rs.inv.mu.Lock()
	defer rs.inv.mu.Unlock()
	e := rs.inv.active[manifest]
	if e == nil {
		return nil
	}
	var list []plan.Holder
	for _, c := range e.Status(v, rs.p, rs.deps.Now(), e.here, e.sure).Copies {
		if c.State.Readable() && !c.Here {
			list = append(list, plan.Holder{ID: c.ID, Piece: c.Piece})
		}
	}
	return list
}
