package partial

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// object is an object that is not whole, as its users share it: at most one
// ingest, and readers. The last of them closes its files.
//
// Invariants: a group is in groups after its bytes and those of every parent
// above it were written. What is proved and noted by a checkpoint outlives the
// process; a bitmap that is older than the files costs a refetch, never bad
// bytes, for every read proves what it returns.
type object struct {
	t    *Table
	root b3.Root
	size int64 // as claimed, until proved

	st  *meta.Staging // nil for a small object
	buf []byte        // of a small object

	ready  chan struct{} // closed when the fields above are set, or gone is closed
	gone   chan struct{} // closed when the table holds it no more
	saving chan struct{} // one token: who holds it saves, commits or forgets

	mu      sync.Mutex
	users   int // of the files: the ingest, the backend while it publishes, readers; the table's loader
	writing int
	idle    chan struct{} // closed when writing is 0; nil while nobody waits
	changed chan struct{} // closed when a group arrives or the ingest ends; nil while nobody waits
	groups  Bitmap
	held    int64 // bytes of groups
	proved  bool  // size
	broken  error // a sync failed: nothing more is taken or saved
	over    bool  // committed or forgotten: nothing of it is saved, and nobody joins

	// Since the last checkpoint.
	dirty  map[int64]struct{} // pages of groups that changed
	fresh  int64              // bytes that came
	noting int64              // bytes that a checkpoint under way notes
	coming int64              // bytes that are being written
	since  time.Time          // when the first of them, or of what changed, did
	saved  Record             // what the backend has; zero when it has none
	used   meta.Second
}

func newSmall(t *Table, root b3.Root, size int64) *object {
	p := newObject(t, root)
	p.size, p.buf = size, make([]byte, size)
	close(p.ready)
	return p
}

// newObject has one user.
func newObject(t *Table, root b3.Root) *object {
	return &object{
		t: t, root: root, users: 1, dirty: map[int64]struct{}{}, used: t.deps.Clock.Stamp(),
		ready: make(chan struct{}), gone: make(chan struct{}), saving: make(chan struct{}, 1),
	}
}

// load takes over what the backend has of root, or else, with a size ≥ 0, makes
// room for a download of that claimed size.
func (p *object) load(size int64) error {
	st, rec, pages, err := p.t.deps.Backend.Resume(p.root)
	switch {
	case err != nil:
		return err
	case st == nil && rec.Size > 0: // it is lost
		p.t.objects.Add(-1)
		p.t.bytes.Add(-rec.Held)
		if size < 0 {
			return notHere(p.root)
		}
	case st != nil:
		p.st, p.size, p.proved, p.saved = st, rec.Size, true, rec
		groups := b3.Groups(rec.Size)
		for _, page := range pages {
			p.groups.Put(page.Number, page.Bits, groups)
		}
		p.held = p.groups.Count() * b3.GroupSize
		if p.groups.Has(groups - 1) {
			p.held -= groups*b3.GroupSize - rec.Size
		}
		p.t.bytes.Add(p.held - rec.Held)
		return nil
	case size < 0:
		return notHere(p.root)
	}
	if p.st, err = p.t.deps.Backend.Stage(p.root); err != nil {
		return err
	}
	p.size = size
	p.t.objects.Add(1)
	return nil
}

func notHere(root b3.Root) error {
	return status.Errorf(status.NotFound, "store: no part of %s is here", root)
}

// join adds a user, unless the partial is on its way out.
func (p *object) join() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 || p.over {
		return false
	}
	p.users++
	p.used = p.t.deps.Clock.Stamp()
	return true
}

// unuse gives up the files; the last one notes what changed and closes them.
func (p *object) unuse() {
	p.mu.Lock()
	p.users--
	last := p.users == 0
	over := p.over
	p.mu.Unlock()
	if !last || p.st == nil {
		return
	}
	if !over {
		p.checkpoint()
		p.unload()
	}
	p.st.Close()
	p.t.remove(p)
}

// unload leaves the partial as the backend has it; without users.
func (p *object) unload() {
	if !p.st.Kept {
		p.forget()
		return
	}
	p.t.bytes.Add(p.saved.Held - p.held)
}

// write puts the bytes of item in their place. Readers look at a place only
// after endWrite has noted it.
func (p *object) write(item b3.Proved) (err error) {
	switch {
	case p.st == nil:
		p.mu.Lock()
		copy(p.buf, item.Data())
		p.mu.Unlock()
	case item.IsParent():
		_, err = p.st.Outboard.WriteAt(item.Data(), item.Node()*b3.ParentSize)
	default:
		_, err = p.st.Data.WriteAt(item.Data(), item.Offset())
	}
	return err
}

// endWrite notes what a write brought, nothing when it failed.
func (p *object) endWrite(item b3.Proved, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing--
	if !item.IsParent() {
		p.coming -= int64(len(item.Data()))
	}
	if p.writing == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
	if err != nil {
		return
	}
	p.prove(item)
	if item.IsParent() || !p.groups.Add(item.Group()) {
		return
	}
	n := int64(len(item.Data()))
	p.held += n
	p.wake()
	if p.st != nil {
		p.t.bytes.Add(n)
		p.note(item.Group(), n)
	}
}

// prove notes that the size is a fact when item says so. mu is held.
func (p *object) prove(item b3.Proved) {
	if p.proved || !item.SizeProved() {
		return
	}
	p.proved = true
	p.t.alert() // from now on there is something to note
}

// note remembers that group g changed, with n bytes to be made durable, and
// tells the checkpoint clock when that matters to it. mu is held.
func (p *object) note(g, n int64) {
	if len(p.dirty) == 0 {
		p.since = time.Now()
	}
	p.dirty[g/PageBits] = struct{}{}
	before := p.fresh
	p.fresh += n
	if before == 0 || before < checkpointBytes && p.fresh >= checkpointBytes {
		p.t.alert()
	}
}

// awaitWrites returns when no write is under way. No more begin: the caller
// changed the ingest's state. Writes take as long as the disk.
func (p *object) awaitWrites() {
	p.mu.Lock()
	if p.writing == 0 {
		p.mu.Unlock()
		return
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	<-idle
}

// wake tells those who wait. mu is held.
func (p *object) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// usedStep is by how many minutes a last use is behind before it alone is worth
// a write.
const usedStep = 10

// checkpoint is save for one who is not in a hurry to know: an error is logged,
// and what it concerns stays to be saved.
func (p *object) checkpoint() {
	if !p.t.writes.Enter() {
		return // the store is closing, and saved everything
	}
	defer p.t.writes.Leave()
	p.saving <- struct{}{} // held for two syncs and a write of the index
	err := p.save()
	<-p.saving
	if err != nil {
		p.t.deps.Log.Warn("what came of a download could not be noted; a restart fetches it again", "root", p.root, "err", err)
	}
}

// save makes what arrived durable and has the backend note it. The caller holds
// the saving token and keeps the files open.
func (p *object) save() error {
	p.mu.Lock()
	rec := Record{Root: p.root, Size: p.size, Held: p.held, Used: p.used}
	if p.over || !p.proved || p.broken != nil || len(p.dirty) == 0 && (!p.st.Kept || rec.Used < p.saved.Used+usedStep) {
		defer p.mu.Unlock()
		return p.broken
	}
	pages := make([]Page, 0, len(p.dirty))
	for n := range p.dirty {
		pages = append(pages, Page{Number: n, Bits: p.groups.Page(n)})
	}
	fresh := p.fresh
	clear(p.dirty)
	p.fresh, p.noting = 0, fresh
	p.mu.Unlock()
	slices.SortFunc(pages, func(a, b Page) int { return cmp.Compare(a.Number, b.Number) })
	err := p.t.deps.Backend.Save(p.st, rec, pages)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noting = 0
	if err != nil {
		for _, page := range pages {
			p.dirty[page.Number] = struct{}{}
		}
		p.fresh += fresh
		p.since = time.Now()
		p.broken = p.st.Failed
		return err
	}
	p.saved = rec
	return nil
}

// due is how long until the next checkpoint; ok is false when there is nothing
// to note.
func (p *object) due(now time.Time) (wait time.Duration, ok bool) {
	select {
	case <-p.ready:
	default:
		return 0, false // it is being loaded, by one goroutine and without the lock
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over || !p.proved || p.broken != nil || len(p.dirty) == 0:
		return 0, false
	case p.fresh >= checkpointBytes:
		return max(0, checkpointRetry-now.Sub(p.since)), true
	}
	return max(0, checkpointAge-now.Sub(p.since)), true
}

// worthKeeping reports whether a later ingest has any use for what is here.
func (p *object) worthKeeping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.st != nil && p.proved && p.held > 0
}

// forget removes what arrived. Readers keep what they have open.
func (p *object) forget() {
	if p.st == nil {
		return
	}
	p.saving <- struct{}{} // held to unlink two files
	if p.t.writes.Enter() {
		p.t.discard(p.st)
		p.t.writes.Leave()
	}
	p.retire()
	<-p.saving
}

// retire takes the partial out of the table: it is committed, or forgotten.
func (p *object) retire() {
	p.mu.Lock()
	p.over = true
	held := p.held
	p.mu.Unlock()
	p.t.objects.Add(-1)
	p.t.bytes.Add(-held)
	p.t.remove(p)
}

// commit publishes the object. What a checkpoint noted is brought up to date
// first, and published durably at once, so that a crash leaves the whole object
// or all that came. Where the bytes go to a bucket, which may be away, all is
// noted before, so that what cannot be published now is kept. The caller holds
// the saving token.
func (p *object) commit(ctx context.Context, deferred bool) (isNew bool, err error) {
	if p.st == nil {
		return p.t.deps.CommitSmall(ctx, p.root, p.buf, deferred)
	}
	if p.st.Kept || !deferred && p.t.deps.Remote {
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
	done := p.unuse
	if deferred = deferred && !p.st.Kept; deferred {
		pending := meta.Count{Objects: 1, Bytes: meta.StoredSize(p.size)}
		defer p.t.deps.Space.Take(pending) // from when the partial does not count until the object does
		done = func() {
			p.t.deps.Space.Release(pending)
			p.unuse()
		}
	}
	isNew, err = p.t.deps.CommitLarge(ctx, p.root, p.size, p.st, deferred, done)
	if err == nil || !p.st.Kept {
		p.retire()
	}
	return isNew, err
}
