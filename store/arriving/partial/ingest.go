package partial

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Ingest is a download of an object whose address is known. Proved items are written to it,
// readers follow, and Commit makes the object visible. The caller ends it with Commit,
// Suspend or Abort. Its methods are safe for concurrent use.
//
// An Ingest holds a lease. Items are written to their final place; a small object waits in RAM. The groups of a large
// object whose size is proved are saved about every checkpointBytes or checkpointAge, so a later ingest continues there
// unless Abort ended this one.
type Ingest struct {
	object *object
	permit func() // releases the place at Deps.Gate

	// Guarded by p.mu.
	state ingestState // only increases
	err   error       // why it was aborted
}

type ingestState uint8

const (
	receiving ingestState = iota
	committing
	committed
	suspended
	aborted
)

// Root returns the address of the object.
func (in *Ingest) Root() b3.Root { return in.object.root }

// Size returns the object's size in bytes, and whether it is proved.
func (in *Ingest) Size() (size int64, proved bool) {
	in.object.mu.Lock()
	defer in.object.mu.Unlock()
	return in.object.size, in.object.sizeProved
}

// Has reports whether group g is stored.
func (in *Ingest) Has(g int64) bool {
	in.object.mu.Lock()
	defer in.object.mu.Unlock()
	return in.object.groups.Has(g)
}

// Missing returns the first run of groups [lo, hi) in [from, to) that are not stored. lo
// equals hi when none is missing. Groups past the object's end do not count.
func (in *Ingest) Missing(from, to int64) (lo, hi int64) {
	from, to = max(from, 0), min(to, b3.Groups(in.object.size))
	in.object.mu.Lock()
	defer in.object.mu.Unlock()
	lo = in.object.groups.FirstAbsent(from, max(from, to))
	return lo, in.object.groups.FirstPresent(lo, max(lo, to))
}

// Held returns how many bytes of the object are stored.
func (in *Ingest) Held() int64 {
	in.object.mu.Lock()
	defer in.object.mu.Unlock()
	return in.object.stored
}

// Write stores one proved item. An item of another object or size is bad_request. Items may
// come twice and from any number of goroutines. The parents of a group must be written
// before it. A group waits while maxUnsaved bytes are not saved. After no_space, the ingest
// can continue.
func (in *Ingest) Write(item b3.Proved) error {
	p := in.object
	if !item.Valid() || item.Root() != p.root || item.Size() != p.size {
		return status.Errorf(status.BadRequest, "ingest %s of %d bytes: got an item of %s of %d bytes",
			p.root, p.size, item.Root(), item.Size())
	}
	if p.t.deps.Admission.Draining() {
		return meta.ErrDraining
	}
	start, err := in.startWrite(item)
	for ; err == nil && start == writeMustWait; start, err = in.startWrite(item) {
		if err := p.waitForCheckpoint(int64(len(item.Data()))); err != nil {
			return fmt.Errorf("store: ingest %s: %w", p.root, err)
		}
	}
	if err != nil || start == writeStored {
		return err
	}
	space := meta.Count{Bytes: meta.PartialSize(int64(len(item.Data())))}
	if err = p.t.deps.Space.ReserveUntil(nil, space); err == nil {
		err = p.write(item)
		defer p.t.deps.Space.Release(space)
	}
	p.endWrite(item, err)
	if err != nil {
		return fmt.Errorf("store: ingest %s: %w", p.root, err)
	}
	return nil
}

// startWrite decides what to do with an item. After writeBegun the caller calls endWrite.
func (in *Ingest) startWrite(item b3.Proved) (writeState, error) {
	p := in.object
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := in.endedErr(); err != nil {
		return 0, err
	}
	if p.failed != nil {
		return 0, fmt.Errorf("store: ingest %s: %w", p.root, p.failed)
	}
	if !item.IsParent() && p.groups.Has(item.Group()) {
		p.noteSize(item)
		return writeStored, nil
	}
	if !item.IsParent() {
		n := int64(len(item.Data()))
		if p.mustWait(n) {
			return writeMustWait, nil
		}
		p.unsaved.writing += n
	}
	p.writes++
	return writeBegun, nil
}

// endedErr returns why the ingest ended, nil while it runs. The caller holds p.mu.
func (in *Ingest) endedErr() error {
	switch in.state {
	case receiving:
		return nil
	case aborted:
		return in.err
	case suspended:
		return errSuspended(in.object.root)
	}
	return status.Errorf(status.Conflict, "store: the ingest of %s is committed", in.object.root)
}

func errSuspended(root b3.Root) error {
	return status.Errorf(status.Canceled, "store: the download of %s was suspended", root)
}

// Wait returns when group g can be read. Otherwise it returns the error of what ended the
// wait first: ctx, Suspend, Abort, or the store. A group past the size is bad_range.
func (in *Ingest) Wait(ctx context.Context, g int64) error {
	if g < 0 || g >= b3.Groups(in.object.size) {
		return status.Errorf(status.BadRange, "store: %s has no group %d", in.object.root, g)
	}
	for {
		changed, err := in.pollGroup(g)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-in.object.t.deps.Admission.Stopping():
			return meta.ErrDraining
		}
	}
}

// pollGroup returns nil, nil when group g is stored, a channel to wait for while it may
// still arrive, or why it cannot.
func (in *Ingest) pollGroup(g int64) (<-chan struct{}, error) {
	p := in.object
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case in.state == aborted:
		return nil, in.err
	case p.groups.Has(g):
		return nil, nil
	case in.state != receiving:
		return nil, in.endedErr()
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed, nil
}

// Open returns a view of the object. Group g can be read after Wait for it; any other group
// is not_found. The view stays readable after the ingest ends. The caller closes it.
func (in *Ingest) Open() (*View, error) {
	p := in.object
	p.mu.Lock()
	defer p.mu.Unlock()
	if in.state == aborted || in.state == suspended {
		return nil, in.endedErr()
	}
	if p.users == 0 {
		return nil, status.Errorf(status.Conflict, "store: the ingest of %s is committed; open the object", p.root)
	}
	p.users++
	p.t.deps.Leases.Acquire(p.root)
	return &View{p}, nil
}

// Commit makes the object visible, and durable unless deferred. If a group is missing or
// the size is not proved, it returns precondition and the ingest continues. Any other error
// ends the ingest; what a checkpoint saved stays for the next one. If the bucket could not
// take a large object, all of it stays, unless deferred.
func (in *Ingest) Commit(ctx context.Context, deferred bool) (isNew bool, err error) {
	p := in.object
	if err := in.stopIfComplete(); err != nil {
		return false, err
	}
	p.saveLock <- struct{}{} // for a checkpoint, and until the object is in place
	isNew, err = p.commit(ctx, deferred)
	<-p.saveLock
	if err != nil {
		err = fmt.Errorf("store: ingest %s: %w", p.root, err)
		in.end(aborted, err)
		return false, err
	}
	in.end(committed, nil)
	if p.apart {
		p.t.dropSaved(p.root)
	}
	return isNew, nil
}

// stopIfComplete stops the ingest from accepting items if every group has arrived.
func (in *Ingest) stopIfComplete() error {
	p := in.object
	p.mu.Lock()
	if err := in.endedErr(); err != nil {
		p.mu.Unlock()
		return err
	}
	if groups := b3.Groups(p.size); p.groups.Count() < groups || !p.sizeProved {
		defer p.mu.Unlock()
		return status.Errorf(status.Precondition, "store: ingest %s: %d of %d groups have arrived, size proved: %t",
			p.root, p.groups.Count(), groups, p.sizeProved)
	}
	in.state = committing
	p.mu.Unlock()
	p.awaitWrites()
	return nil
}

// Suspend ends the ingest and saves the groups that arrived, for the next ingest and for readers. It discards a small
// object, one without a proved size, one without a group, and one that is stored whole by now. A failed checkpoint is
// logged and costs the groups that came since the last one. After Commit, Suspend or Abort, it does nothing.
func (in *Ingest) Suspend() {
	if !in.stop(suspended, nil) {
		return
	}
	p := in.object
	saved := p.resumable()
	if saved {
		p.checkpoint()
	} else {
		p.discard()
	}
	in.end(suspended, nil)
	if saved {
		p.t.dropSaved(p.root)
	}
}

// Abort ends the ingest and discards everything that arrived, also in earlier ingests.
// Waiting readers get err, or canceled when it is nil. After Commit, Suspend or Abort, it
// does nothing.
func (in *Ingest) Abort(err error) {
	if err == nil {
		err = status.Errorf(status.Canceled, "store: the download of %s was given up", in.object.root)
	}
	if !in.stop(aborted, err) {
		return
	}
	in.object.discard()
	in.end(aborted, err)
}

// stop makes the ingest refuse items and waits for the writes in progress. It returns false
// when the ingest has ended already.
func (in *Ingest) stop(state ingestState, err error) bool {
	p := in.object
	p.mu.Lock()
	first := in.state == receiving
	if first {
		in.state, in.err = state, err
		p.notify()
	}
	p.mu.Unlock()
	if first {
		p.awaitWrites()
	}
	return first
}

// end sets the final state, wakes waiting readers and releases everything.
func (in *Ingest) end(state ingestState, err error) {
	p := in.object
	p.mu.Lock()
	in.state, in.err = state, err
	p.notify()
	p.mu.Unlock()
	p.release()
	p.t.unclaim(p.root, p.apart)
	p.t.deps.Leases.Release(p.root)
	in.permit()
}
