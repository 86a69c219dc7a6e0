package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
)

// blobs are the large objects: obj/xx/<hex> is an object's bytes and nothing
// else, <hex>.ob its outboard.
//
// A publication is synced, then renamed into place, then entered in the index.
// The renames of publications that meet share the syncs of their directories
// and of the index: whoever has the slot publishes for all.
type blobs struct {
	fs     vfs.FS
	log    *slog.Logger
	index  *index
	count  *totals
	space  func(need int64) error
	path   func(elem ...string) string
	prefix string // of names in tmp/, unlike any other process's
	serial atomic.Int64
	slot   chan struct{} // one token: who holds it renames

	mu       sync.Mutex
	ready    []*publication      // synced, waiting for the slot
	deferred []*publication      // not synced yet
	unlinked map[string]struct{} // directories with removals that may not be durable
	failed   error               // sticky: a deferred object is lost, or a directory is unsynced
}

// publication is a staged object on its way into the index.
type publication struct {
	root b3.Root
	size int64
	st   *staging
	done func()

	// Set by whoever holds the slot, read by whoever holds it later.
	moved bool
	isNew bool
	err   error
}

// maxDeferred is how many deferred large objects, with two open files each,
// wait for a flush; the next put flushes.
const maxDeferred = 64

const outboardSuffix = ".ob"

func newBlobs(d *disk) *blobs {
	return &blobs{
		fs: d.fs, log: d.log, index: d.index, count: &d.count, space: d.space, path: d.path,
		prefix: fmt.Sprintf("%016x", rand.Uint64()), slot: make(chan struct{}, 1),
		unlinked: map[string]struct{}{},
	}
}

// objectPath is where root's bytes are, or will be.
func (b *blobs) objectPath(root b3.Root) string {
	h := root.Hex()
	return b.path(dirObjects, h[:2], h)
}

func (b *blobs) stage(root b3.Root) (*staging, error) {
	if err := b.space(2 * b3.GroupSize); err != nil {
		return nil, err
	}
	name := b.path(dirTemp, fmt.Sprintf("%s-%d", b.prefix, b.serial.Add(1)))
	if !root.IsZero() {
		name = b.path(dirPart, root.Hex())
	}
	st := &staging{dataPath: name, outboardPath: name + outboardSuffix}
	data, err := b.create(st.dataPath)
	if err != nil {
		return nil, err
	}
	outboard, err := b.create(st.outboardPath)
	if err != nil {
		_ = data.Close()
		b.tidy(st.dataPath)
		return nil, err
	}
	st.pair = pair{data: data, outboard: outboard}
	return st, nil
}

func (b *blobs) create(name string) (*stagedFile, error) {
	f, err := b.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, writeError("create a file", err)
	}
	return &stagedFile{f: f, space: b.space}, nil
}

func (b *blobs) discard(st *staging) error {
	return errors.Join(b.unlink(st.dataPath), b.unlink(st.outboardPath))
}

func (b *blobs) unlink(name string) error {
	if err := b.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeError("remove a file", err)
	}
	return nil
}

// tidy is unlink where an error helps nobody: the next start removes the file.
func (b *blobs) tidy(names ...string) {
	for _, name := range names {
		if err := b.unlink(name); err != nil {
			b.log.Warn("a file stays until the next start", "file", name, "err", err)
		}
	}
}

func (b *blobs) open(e entry) (pair, error) {
	name := b.objectPath(e.root)
	data, err := b.openFile(name, e.size)
	if err != nil {
		return pair{}, err
	}
	outboard, err := b.openFile(name+outboardSuffix, b3.OutboardSize(e.size))
	if err != nil {
		_ = data.Close() // only read
		return pair{}, err
	}
	return pair{data: data, outboard: outboard}, nil
}

// openFile opens a file that must have that size.
func (b *blobs) openFile(name string, size int64) (vfs.File, error) {
	f, err := b.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damage("missing")
	}
	if err != nil {
		return nil, readError(err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = readError(err)
	case info.Size() != size:
		err = damage("short")
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, err
	}
	return f, nil
}

// publish makes p visible and durable, now or by the next flush.
func (b *blobs) publish(p *publication, deferred bool) (isNew bool, err error) {
	if deferred {
		return true, b.deferUntilFlush(p)
	}
	if p.err = b.sync(p); p.err != nil {
		b.tidy(p.st.dataPath, p.st.outboardPath)
		p.done()
		return false, p.err
	}
	b.commit(p)
	return p.isNew, p.err
}

func (b *blobs) deferUntilFlush(p *publication) error {
	b.mu.Lock()
	b.deferred = append(b.deferred, p)
	full := len(b.deferred) >= maxDeferred
	b.mu.Unlock()
	if full {
		return b.flush()
	}
	return b.failure()
}

// flush publishes what was deferred.
func (b *blobs) flush() error {
	b.mu.Lock()
	all := b.deferred
	b.deferred = nil
	b.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(4) // so that the syncs share journal commits
	for _, p := range all {
		g.Go(func() error { p.err = b.sync(p); return nil })
	}
	_ = g.Wait() // the errors are in all
	b.commit(all...)
	for _, p := range all {
		if p.err != nil {
			b.fail(fmt.Errorf("a deferred object was lost: %s: %w; restart the node and put it again", p.root, p.err))
		}
	}
	return b.failure()
}

func (b *blobs) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
}

func (b *blobs) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// sync makes p's bytes durable.
func (b *blobs) sync(p *publication) error {
	for _, f := range []file{p.st.data, p.st.outboard} {
		if err := f.(*stagedFile).f.SyncData(); err != nil {
			return writeError("sync a file", err)
		}
	}
	return nil
}

// commit publishes synced objects, with whatever others are ready.
func (b *blobs) commit(mine ...*publication) {
	b.mu.Lock()
	b.ready = append(b.ready, mine...)
	b.mu.Unlock()
	b.slot <- struct{}{} // held for a few renames and syncs
	defer func() { <-b.slot }()
	b.mu.Lock()
	all := b.ready
	b.ready = nil
	b.mu.Unlock()
	if len(all) > 0 {
		b.place(all)
	}
}

// place renames publications into place and enters them in the index. The slot
// is held.
func (b *blobs) place(all []*publication) {
	first := map[b3.Root]*publication{}
	var moved []*publication
	var before []entry
	for _, p := range all {
		if p.err != nil {
			continue
		}
		if first[p.root] != nil {
			continue // goes the way of its twin
		}
		first[p.root] = p
		old, ok, err := b.index.get(p.root)
		if err != nil {
			p.err = err
			continue
		}
		if ok && !old.corrupt {
			continue // another put was faster
		}
		if p.err = b.rename(p); p.err != nil {
			continue
		}
		if ok {
			before = append(before, old)
		}
		p.moved, p.isNew = true, !ok
		moved = append(moved, p)
	}
	if err := b.enter(moved); err != nil {
		for _, p := range moved {
			p.err = err
		}
	} else {
		b.recount(before, moved)
	}
	for _, p := range all {
		if p.err == nil {
			p.err = first[p.root].err
		}
		if !p.moved {
			b.tidy(p.st.dataPath, p.st.outboardPath)
		}
		p.done()
	}
}

func (b *blobs) recount(before []entry, moved []*publication) {
	for _, e := range before {
		b.count.sub(e)
	}
	for _, p := range moved {
		b.count.add(entry{root: p.root, size: p.size})
	}
}

// rename moves p's files to their names, the data last: with it the object is
// complete.
func (b *blobs) rename(p *publication) error {
	name := b.objectPath(p.root)
	if err := b.fs.Rename(p.st.outboardPath, name+outboardSuffix); err != nil {
		return writeError("rename a file", err)
	}
	if err := b.fs.Rename(p.st.dataPath, name); err != nil {
		b.tidy(name + outboardSuffix)
		return writeError("rename a file", err)
	}
	return nil
}

// enter makes renamed objects durable and visible. Once a directory could not
// be synced, what is on disk is unknown: that is sticky.
func (b *blobs) enter(moved []*publication) error {
	if len(moved) == 0 {
		return nil
	}
	dirs := map[string]struct{}{}
	batch := b.index.db.NewBatch()
	for _, p := range moved {
		dirs[b.fs.PathDir(b.objectPath(p.root))] = struct{}{}
		if err := setEntry(batch, entry{root: p.root, size: p.size}); err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := syncDir(b.fs, dir); err != nil {
			b.fail(err)
			return err
		}
	}
	return b.index.apply(batch, true)
}

// remove unlinks an object that is not in the index any more. A crash before its
// directory is synced makes the files orphans.
func (b *blobs) remove(root b3.Root) {
	name := b.objectPath(root)
	b.tidy(name, name+outboardSuffix)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlinked[b.fs.PathDir(name)] = struct{}{}
}

// close publishes what was deferred and makes removals durable: after an orderly
// close nobody looks for orphans.
func (b *blobs) close() error {
	if err := b.flush(); err != nil {
		return err
	}
	for dir := range b.unlinked { // nobody removes any more
		if err := syncDir(b.fs, dir); err != nil {
			return err
		}
	}
	return nil
}

// removeOrphans unlinks files in obj/ that the index does not know. They were
// never acknowledged, or deleted: a crash came between index and directory.
func (b *blobs) removeOrphans() error {
	for i := range 256 {
		dir := b.path(dirObjects, fmt.Sprintf("%02x", i))
		names, err := b.fs.List(dir)
		if err != nil {
			return readError(err)
		}
		for _, name := range names {
			known, err := b.known(name)
			if err != nil {
				return err
			}
			if !known {
				b.tidy(b.fs.PathJoin(dir, name))
			}
		}
	}
	return nil
}

// known reports whether the file of that name belongs to a visible object.
func (b *blobs) known(name string) (bool, error) {
	root, err := b3.Parse("b3:" + strings.TrimSuffix(name, outboardSuffix))
	if err != nil {
		return true, nil // not ours to remove
	}
	e, ok, err := b.index.get(root)
	return ok && !small(e.size), err
}
