package partial

import (
	"context"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// object is a partial object in use. At most one ingest and any number of readers share it;
// the last of them closes its files. The table has it for others to join, unless it is apart.
//
// A bitmap that is older than the files, after a crash, costs a refetch, never wrong bytes:
// every read proves what it returns.
type object struct {
	t    *Table
	root b3.Root
	size int64 // as claimed, until proved

	apart bool // not in the table, and never saved

	staging   *meta.Staging // the files; nil for a small object
	smallData []byte        // of a small object

	ready    chan struct{} // closed when the fields above are set, or removed is closed
	removed  chan struct{} // closed when the table has dropped the object
	saveLock chan struct{} // a buffer of one; full while somebody saves, commits or discards

	mu         sync.Mutex    // lock: metadata
	users      int           // of the files: the ingest, readers, the backend while it publishes, the loader
	writes     int           // in progress
	writesDone chan struct{} // closed when writes is 0; nil while nobody waits
	changed    chan struct{} // closed when a group arrives or the ingest ends; nil while nobody waits
	groups     Bitmap        // stored groups
	stored     int64         // bytes of groups
	sizeProved bool
	failed     error // a sync failed: nothing more is written or saved
	ended      bool  // committed or discarded: nothing is saved any more, and nobody joins

	unsaved     unsaved
	savedRecord meta.Partial // what the backend has; zero for nothing
	used        meta.Second  // last use
}

func newSmall(t *Table, root b3.Root, size int64, apart bool) *object {
	p := newObject(t, root)
	p.size, p.smallData, p.apart = size, make([]byte, size), apart
	close(p.ready)
	return p
}

// newApart returns a large object with separate files. Only its ingest and the readers of that ingest use it.
func newApart(t *Table, root b3.Root, size int64) (*object, error) {
	st, err := t.deps.Backend.Stage(b3.Root{})
	if err != nil {
		return nil, err
	}
	p := newObject(t, root)
	p.staging, p.size, p.apart = st, size, true
	t.objects.Add(1)
	close(p.ready)
	return p, nil
}

// newObject returns an object with one user.
func newObject(t *Table, root b3.Root) *object {
	return &object{
		t: t, root: root, users: 1, unsaved: unsaved{pages: map[int64]struct{}{}}, used: t.deps.Clock.Stamp(),
		ready: make(chan struct{}), removed: make(chan struct{}), saveLock: make(chan struct{}, 1),
	}
}

// load reads what the backend has of root. If that is nothing and size ≥ 0, it creates the
// files for a download of that claimed size.
func (p *object) load(size int64) error {
	st, rec, pages, err := p.t.deps.Backend.Resume(p.root)
	switch {
	case err != nil:
		return err
	case st == nil && rec.Size > 0: // the files are lost
		p.t.objects.Add(-1)
		p.t.bytes.Add(-rec.Stored)
		if size < 0 {
			return errNotHere(p.root)
		}
	case st != nil:
		p.staging, p.size, p.sizeProved, p.savedRecord = st, rec.Size, true, rec
		groups := b3.Groups(rec.Size)
		for _, page := range pages {
			p.groups.AddPage(page.Number, page.Bits, groups)
		}
		p.stored = p.groups.Count() * b3.GroupSize
		if p.groups.Has(groups - 1) {
			p.stored -= groups*b3.GroupSize - rec.Size
		}
		p.t.bytes.Add(p.stored - rec.Stored)
		return nil
	case size < 0:
		return errNotHere(p.root)
	}
	if p.staging, err = p.t.deps.Backend.Stage(p.root); err != nil {
		return err
	}
	p.size = size
	p.t.objects.Add(1)
	return nil
}

func errNotHere(root b3.Root) error {
	return status.Errorf(status.NotFound, "store: no part of %s is here", root)
}

// addUser adds a user, unless the object is being dropped.
func (p *object) addUser() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 || p.ended {
		return false
	}
	p.users++
	p.used = p.t.deps.Clock.Stamp()
	return true
}

// release removes a user. The last one saves what changed and closes the files.
func (p *object) release() {
	p.mu.Lock()
	p.users--
	last := p.users == 0
	over := p.ended
	p.mu.Unlock()
	if !last || p.staging == nil {
		return
	}
	if !over {
		p.checkpoint()
		p.unload()
	}
	p.staging.Close()
	p.t.remove(p)
}

// unload drops the object as the backend has it saved. It has no users any more.
func (p *object) unload() {
	if !p.staging.Kept {
		p.discard()
		return
	}
	p.t.bytes.Add(p.savedRecord.Stored - p.stored)
}

// write writes the bytes of item to their place. Readers do not look there until endWrite.
func (p *object) write(item b3.Proved) (err error) {
	switch {
	case p.staging == nil:
		p.mu.Lock()
		copy(p.smallData, item.Data())
		p.mu.Unlock()
	case item.IsParent():
		_, err = p.staging.Outboard.WriteAt(item.Data(), item.Node()*b3.ParentSize)
	default:
		_, err = p.staging.Data.WriteAt(item.Data(), item.Offset())
	}
	return err
}

// endWrite records what a write stored; nothing when it failed.
func (p *object) endWrite(item b3.Proved, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes--
	if !item.IsParent() {
		p.unsaved.writing -= int64(len(item.Data()))
	}
	if p.writes == 0 && p.writesDone != nil {
		close(p.writesDone)
		p.writesDone = nil
	}
	if err != nil {
		return
	}
	p.noteSize(item)
	if item.IsParent() || !p.groups.Add(item.Group()) {
		return
	}
	n := int64(len(item.Data()))
	p.stored += n
	p.notify()
	if p.staging != nil {
		p.t.bytes.Add(n)
		p.markDirty(item.Group(), n)
	}
}

// noteSize records that item proves the size, if it does. The caller holds mu.
func (p *object) noteSize(item b3.Proved) {
	if p.sizeProved || !item.SizeProved() {
		return
	}
	p.sizeProved = true
	p.t.wake() // from now on there is something to save
}

// awaitWrites returns when no write is in progress. No more begin, as the caller changed
// the ingest's state.
func (p *object) awaitWrites() {
	p.mu.Lock()
	if p.writes == 0 {
		p.mu.Unlock()
		return
	}
	if p.writesDone == nil {
		p.writesDone = make(chan struct{})
	}
	idle := p.writesDone
	p.mu.Unlock()
	<-idle
}

// notify wakes those who wait for a group. The caller holds mu.
func (p *object) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// resumable reports whether a later ingest can continue from what is stored.
func (p *object) resumable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.staging != nil && !p.apart && p.sizeProved && p.stored > 0
}

// discard deletes what arrived. Readers keep their open files.
func (p *object) discard() {
	if p.staging == nil {
		return
	}
	p.saveLock <- struct{}{} // to delete two files
	if p.t.writes.Enter() {
		p.t.discard(p.staging)
		p.t.writes.Leave()
	}
	p.end()
	<-p.saveLock
}

// end drops the object from the table: it is committed or discarded.
func (p *object) end() {
	p.mu.Lock()
	p.ended = true
	held := p.stored
	p.mu.Unlock()
	p.t.objects.Add(-1)
	p.t.bytes.Add(-held)
	p.t.remove(p)
}

// commit publishes the object. If a checkpoint saved any of it, commit saves the rest first
// and publishes durably, so that a crash leaves either the complete object or everything
// that arrived. If the object goes to a bucket that may be unreachable, commit saves
// everything first too. The caller holds saveLock.
func (p *object) commit(ctx context.Context, deferred bool) (isNew bool, err error) {
	if p.staging == nil {
		return p.t.deps.CommitSmall(ctx, p.root, p.smallData, deferred)
	}
	if p.staging.Kept || !deferred && p.t.deps.ToBucket {
		if !p.t.writes.Enter() {
			return false, meta.ErrDraining
		}
		err := p.save()
		p.t.writes.Leave()
		if err != nil {
			return false, err
		}
	}
	p.mu.Lock()
	p.users++ // the backend's
	p.mu.Unlock()
	done := p.release
	if deferred = deferred && !p.staging.Kept; deferred {
		pending := meta.Count{Objects: 1, Bytes: meta.StoredSize(p.size)}
		defer p.t.deps.Space.Take(pending) // until the object itself is counted
		done = func() {
			p.t.deps.Space.Release(pending)
			p.release()
		}
	}
	isNew, err = p.t.deps.CommitLarge(ctx, p.root, p.size, p.staging, deferred, done)
	if err == nil || !p.staging.Kept {
		p.end()
	}
	return isNew, err
}
