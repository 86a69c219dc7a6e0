package upkeep

import (
	"context"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/meta"
)

// finder has the objects planned that pins ask for, once the store has them. Its methods are safe for concurrent use,
// but for lookAtPinned, which only the goroutine of Run calls.
type finder struct {
	*shared
	pinned    pinnedPins
	encodings encodings
}

// raise takes over the target of a pin if it asks for more than what is known. The pass over all pins
// lowers targets: it sees all pins of an object.
func (f *finder) raise(ctx context.Context, p meta.Pin) error {
	if !p.Target.Wants() {
		return nil
	}
	p, ok, err := f.asCopies(ctx, p)
	if err != nil || !ok {
		return err
	}
	e, err := f.entry(ctx, p.Root, p.Target.Data > 0)
	if err != nil || e == nil {
		return err
	}
	f.inv.with(e, func(now time.Time) {
		if e.pass != f.inv.pass { // the current pass has not seen its pins
			e.pass, e.own = f.inv.pass, e.OwnTarget(f.deps.Self)
		}
		e.raise(f.deps.Self, p.Target, now)
	})
	return nil
}

// raise has an object planned for a target of this node at once, if that asks for more than what is known.
func (e *entry) raise(self plan.ID, t meta.Target, now time.Time) {
	known := e.OwnTarget(self)
	if t.Places() <= known.Places() {
		return
	}
	e.wants(t)
	e.own.Seq = max(e.own.Seq, t.Seq, known.Seq+1)
	e.placed, e.Sure = false, false
	e.AskOwn(self, e.own, now)
}

// entry returns the entry of an object, which it adds if the object is stored and there is room. It
// notes whether the object is stored, once a pass. coded says that the object is a coding manifest, and then what
// matters is whether the node holds a piece of the object.
func (f *finder) entry(ctx context.Context, root b3.Root, coded bool) (*entry, error) {
	f.inv.mu.Lock()
	if _, rests := f.inv.packed(root); rests && f.inv.crowded() {
		f.inv.mu.Unlock()
		return nil, errCrowded()
	}
	e := f.inv.find(root)
	fresh := e != nil && e.Here && e.pass >= f.inv.pass
	f.inv.mu.Unlock()
	if fresh {
		return e, nil
	}
	info, err := f.deps.Store.Stat(ctx, root)
	switch status.Of(err) {
	case status.OK, status.NotFound, status.Corrupt:
	default:
		return nil, err
	}
	here := err == nil && !info.Corrupt
	p := piece{size: info.Size}
	stored := here
	if coded && here {
		if p, err = f.pieceOf(ctx, root, e); err != nil {
			return nil, err
		}
		here = p.ok
	}
	e, coding := f.inv.set(root, stored, here, p)
	if coding {
		f.deps.Coded(p.manifest.Object)
	}
	return e, nil
}

// piece is the part of a coded object that this node has.
type piece struct {
	manifest *erasure.Manifest // nil: a plain object
	held     plan.Piece
	ok       bool  // held is there
	size     int64 // bytes that a holder stores
}

// pieceOf returns the piece that this node has of the coded object of a manifest. e is its entry, or nil. If root is
// not a manifest, there is no piece.
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

// Pinned takes over the target of a pin that was just set, and has the next tick look at what is below, so that nobody
// waits for a pass over all pins. If too many wait, the pass finds it. The error is not_ready if this node plans as
// many objects as it can.
func (f *finder) Pinned(ctx context.Context, p meta.Pin) error {
	if p.Recursive {
		f.pinned.add(p)
	}
	defer f.wakeUp()
	if err := f.raise(ctx, p); err != nil {
		if !p.Recursive {
			f.pinned.add(p)
		}
		if status.Of(err) != status.Busy {
			return err
		}
	}
	f.inv.mu.Lock()
	defer f.inv.mu.Unlock()
	if p.Target.Wants() && f.inv.entryFor(p.Root) == nil && f.inv.len() >= f.inv.limit {
		return status.Errorf(status.NotReady,
			"this node plans %d objects, and no more; its copies are made once there is "+
				"room: remove pins, or pin it on another node of the cluster", f.inv.limit)
	}
	return nil
}

// pinnedPins has the pins that the next tick looks at first, in the order in which they were set. It is safe for
// concurrent use.
type pinnedPins struct {
	mu   sync.Mutex // lock: leaf
	pins []meta.Pin // at most maxPinned
}

// add has the next tick look at a pin, unless too many wait.
func (q *pinnedPins) add(p meta.Pin) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pins) < maxPinned {
		q.pins = append(q.pins, p)
	}
}

// list returns the pins. They wait until remove is called.
func (q *pinnedPins) list() []meta.Pin {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pins
}

// remove removes the first n pins.
func (q *pinnedPins) remove(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pins = q.pins[n:]
}

// lookAtPinned takes over the targets of pins that were just set.
func (f *finder) lookAtPinned(ctx context.Context) {
	pins := f.pinned.list()
	defer f.pinned.remove(len(pins)) // till then no target counts as met
	for _, p := range pins {
		err := f.raise(ctx, p)
		if p.Recursive && err == nil {
			err = f.raiseBelow(ctx, p)
		}
		if err != nil && ctx.Err() == nil {
			f.deps.Log.Warn("the target of a new pin is planned later", "root", p.Root, "err", err)
		}
	}
}

func (f *finder) raiseBelow(ctx context.Context, p meta.Pin) error {
	for root, err := range f.deps.Below(ctx, p.Root) {
		if err != nil {
			return err
		}
		p.Root = root
		if err := f.raise(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
