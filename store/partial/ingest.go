package partial

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Ingest is a download of an object whose address is known: proved items go in,
// readers follow, and Commit makes the object visible. Its methods are safe for
// concurrent use. It must end with Commit, Suspend or Abort.
//
// It holds a lease from the first byte. Items are written where they will stay;
// a small object waits in RAM. What arrived of a large one whose size is proved
// is noted durably about every checkpointBytes or checkpointAge, so that a
// later ingest goes on from there, whatever ended this one but Abort.
type Ingest struct {
	p      *object
	permit func() // gives back the place

	// Guarded by p.mu.
	state ingestState // only moves forward
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

// Root is the address of the object.
func (in *Ingest) Root() b3.Root { return in.p.root }

// Size is the object's size in bytes, and whether that is proved.
func (in *Ingest) Size() (size int64, proved bool) {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	return in.p.size, in.p.proved
}

// Has reports whether group g is here.
func (in *Ingest) Has(g int64) bool {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	return in.p.groups.Has(g)
}

// Missing is the first run of groups [lo, hi) of [from, to) that are not here;
// lo is hi when none is missing. What lies past the object is cut off.
func (in *Ingest) Missing(from, to int64) (lo, hi int64) {
	from, to = max(from, 0), min(to, b3.Groups(in.p.size))
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	lo = in.p.groups.Hole(from, max(from, to))
	return lo, in.p.groups.Member(lo, max(lo, to))
}

// Held is how many bytes of the object are here.
func (in *Ingest) Held() int64 {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	return in.p.held
}

// Write stores one proved item of this object, walked with this size; another
// one is bad_request. Items may come twice and from any number of goroutines;
// the parents that a walk gives before a group are written before it. A group
// waits while checkpointMost bytes are not noted. no_space leaves the ingest as
// it was.
func (in *Ingest) Write(item b3.Proved) error {
	p := in.p
	if !item.Valid() || item.Root() != p.root || item.Size() != p.size {
		return status.Errorf(status.BadRequest, "store: ingest %s of %d bytes: got an item of %s of %d bytes", p.root, p.size, item.Root(), item.Size())
	}
	if p.t.deps.Admission.Draining() {
		return meta.ErrDraining
	}
	start, err := in.startWrite(item)
	for ; err == nil && start == writeFull; start, err = in.startWrite(item) {
		if err := p.relieve(int64(len(item.Data()))); err != nil {
			return fmt.Errorf("store: ingest %s: %w", p.root, err)
		}
	}
	if err != nil || start == writeHere {
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

// startWrite admits one write.
func (in *Ingest) startWrite(item b3.Proved) (writeStart, error) {
	p := in.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := in.over(); err != nil {
		return 0, err
	}
	if p.broken != nil {
		return 0, fmt.Errorf("store: ingest %s: %w", p.root, p.broken)
	}
	if !item.IsParent() && p.groups.Has(item.Group()) {
		p.prove(item)
		return writeHere, nil
	}
	if !item.IsParent() {
		n := int64(len(item.Data()))
		if p.full(n) {
			return writeFull, nil
		}
		p.coming += n
	}
	p.writing++
	return writeBegun, nil
}

// over returns why the ingest ended, nil while it runs. p.mu is held.
func (in *Ingest) over() error {
	switch in.state {
	case receiving:
		return nil
	case aborted:
		return in.err
	case suspended:
		return errSuspended(in.p.root)
	}
	return status.Errorf(status.Conflict, "store: the ingest of %s is committed", in.p.root)
}

func errSuspended(root b3.Root) error {
	return status.Errorf(status.Canceled, "store: the download of %s was suspended", root)
}

// Wait returns when group g can be read, or with the error of whatever ended
// the wait first: ctx, Suspend, Abort, or the store. A group past the size is
// bad_range.
func (in *Ingest) Wait(ctx context.Context, g int64) error {
	if g < 0 || g >= b3.Groups(in.p.size) {
		return status.Errorf(status.BadRange, "store: %s has no group %d", in.p.root, g)
	}
	for {
		changed, err := in.poll(g)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-in.p.t.deps.Admission.Stopping():
			return meta.ErrDraining
		}
	}
}

// poll returns nil, nil when group g is there, and what to wait for while it
// may come.
func (in *Ingest) poll(g int64) (<-chan struct{}, error) {
	p := in.p
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case in.state == aborted:
		return nil, in.err
	case p.groups.Has(g):
		return nil, nil
	case in.state != receiving:
		return nil, in.over()
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed, nil
}

// Open returns the object as far as it has arrived, proved again on every read:
// group g after Wait for it, anything else is not_found. It stays readable after
// the ingest ends. The caller closes it.
func (in *Ingest) Open() (*View, error) {
	p := in.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if in.state == aborted || in.state == suspended {
		return nil, in.over()
	}
	if p.users == 0 {
		return nil, status.Errorf(status.Conflict, "store: the ingest of %s is committed; open the object", p.root)
	}
	p.users++
	p.t.deps.Leases.Acquire(p.root)
	return &View{p}, nil
}

// Commit makes the object visible, and durable unless deferred. While a group
// is missing, or the size is not proved, it is refused with precondition and the
// ingest goes on. Any other error ends the ingest; what a checkpoint noted may
// then be left for the next one. All of a large object that a bucket could not
// take is, unless deferred.
func (in *Ingest) Commit(ctx context.Context, deferred bool) (isNew bool, err error) {
	p := in.p
	if err := in.finish(); err != nil {
		return false, err
	}
	p.saving <- struct{}{} // held for a checkpoint, and until the object is in place
	isNew, err = p.commit(ctx, deferred)
	<-p.saving
	if err != nil {
		err = fmt.Errorf("store: ingest %s: %w", p.root, err)
		in.end(aborted, err)
		return false, err
	}
	in.end(committed, nil)
	return isNew, nil
}

// finish stops the ingest from taking items when it has them all.
func (in *Ingest) finish() error {
	p := in.p
	p.mu.Lock()
	if err := in.over(); err != nil {
		p.mu.Unlock()
		return err
	}
	if groups := b3.Groups(p.size); p.groups.Count() < groups || !p.proved {
		defer p.mu.Unlock()
		return status.Errorf(status.Precondition, "store: ingest %s: %d of %d groups have arrived, size proved: %t",
			p.root, p.groups.Count(), groups, p.proved)
	}
	in.state = committing
	p.mu.Unlock()
	p.awaitWrites()
	return nil
}

// Suspend ends the ingest and keeps what arrived, noted durably, for the next
// one and for readers. An object whose size is not proved, a small one and one
// of which nothing arrived are forgotten. That a checkpoint failed is logged,
// and costs what came since the last one. After Commit, Suspend or Abort it does
// nothing.
func (in *Ingest) Suspend() {
	if !in.stop(suspended, nil) {
		return
	}
	p := in.p
	if p.worthKeeping() {
		p.checkpoint()
	} else {
		p.forget()
	}
	in.end(suspended, nil)
}

// Abort ends the ingest and forgets what arrived, now and before; readers that
// wait get err, canceled when it is nil. After Commit, Suspend or Abort it does
// nothing.
func (in *Ingest) Abort(err error) {
	if err == nil {
		err = status.Errorf(status.Canceled, "store: the download of %s was given up", in.p.root)
	}
	if !in.stop(aborted, err) {
		return
	}
	in.p.forget()
	in.end(aborted, err)
}

// stop takes no more items, and reports whether the caller is the one to end the
// ingest.
func (in *Ingest) stop(state ingestState, err error) bool {
	p := in.p
	p.mu.Lock()
	ours := in.state == receiving
	if ours {
		in.state, in.err = state, err
		p.wake()
	}
	p.mu.Unlock()
	if ours {
		p.awaitWrites()
	}
	return ours
}

// end settles the state, wakes those who wait and gives everything back.
func (in *Ingest) end(state ingestState, err error) {
	p := in.p
	p.mu.Lock()
	in.state, in.err = state, err
	p.wake()
	p.mu.Unlock()
	p.unuse()
	p.t.unclaim(p.root)
	p.t.deps.Leases.Release(p.root)
	in.permit()
}
