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

	"allium/protocols/b3"
	"allium/protocols/status"
)

// blobs are the large objects: obj/xx/<hex> is an object's bytes and nothing
// else, <hex>.ob its outboard. How one gets there is in publish.go.
type blobs struct {
	fs     vfs.FS
	logger *slog.Logger
	index  *index
	log    *segments
	space  func(need int64) error
	path   func(elem ...string) string
	prefix string // of names in tmp/, unlike any other process's
	cloud  *cloud // where the bytes are; nil: in obj/ too
	serial atomic.Int64

	slot     chan struct{} // one token: who holds it renames
	flushing chan struct{} // one token: who holds it flushes

	mu       sync.Mutex
	ready    []*publication      // synced, waiting for the slot
	deferred []*publication      // not synced yet
	unlinked map[string]struct{} // directories with removals that may not be durable
	failed   error               // sticky: a deferred object is lost, or a directory is unsynced
}

const outboardSuffix = ".ob"

func newBlobs(d *disk) *blobs {
	return &blobs{
		fs: d.fs, logger: d.log, index: d.index, log: d.segments, space: d.space, path: d.path, cloud: d.cloud,
		prefix: fmt.Sprintf("%016x", rand.Uint64()), slot: make(chan struct{}, 1), flushing: make(chan struct{}, 1),
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
	name := b.path(dirPart, root.Hex())
	if root.IsZero() {
		name = b.tempName()
	}
	st := &staging{root: root, dataPath: name, outboardPath: name + outboardSuffix}
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

// tempName is a name in tmp/ that was not used before.
func (b *blobs) tempName() string {
	return b.path(dirTemp, fmt.Sprintf("%s-%d", b.prefix, b.serial.Add(1)))
}

func (b *blobs) create(name string) (*stagedFile, error) {
	f, err := b.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, writeError("create a file", err)
	}
	return &stagedFile{f: f, space: b.space}, nil
}

func (b *blobs) discard(st *staging) error {
	if st.kept {
		if err := b.index.forgetPart(st.root); err != nil {
			return err
		}
		st.kept = false
	}
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
			b.logger.Warn("a file stays until the next start", "file", name, "err", err)
		}
	}
}

func (b *blobs) open(e entry) (pair, error) {
	name := b.objectPath(e.root)
	data, err := b.openData(e)
	if err != nil {
		return pair{}, err
	}
	outboard, err := b.openFile(name+outboardSuffix, b3.OutboardSize(e.size))
	if err != nil && status.Of(err) == status.Corrupt && b.cloud != nil {
		if err = b.fetchOutboard(e.root, e.size); err == nil {
			outboard, err = b.openFile(name+outboardSuffix, b3.OutboardSize(e.size))
		}
	}
	if err != nil {
		_ = data.Close() // only read
		return pair{}, err
	}
	return pair{data: data, outboard: outboard}, nil
}

// openData opens an object's bytes: the file, or else the bucket's.
func (b *blobs) openData(e entry) (file, error) {
	name := b.objectPath(e.root)
	if b.cloud != nil {
		if _, err := b.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return b.cloud.openObject(e.root, e.size), nil
		}
	}
	return b.openFile(name, e.size)
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

// remove unlinks an object that is not in the index any more. A crash before its
// directory is synced makes the files orphans.
func (b *blobs) remove(root b3.Root) {
	name := b.objectPath(root)
	b.tidy(name, name+outboardSuffix)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlinked[b.fs.PathDir(name)] = struct{}{}
}

// close makes removals durable: after an orderly close nobody looks for orphans.
func (b *blobs) close() error {
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
			orphan, err := b.orphan(name)
			if err != nil {
				return err
			}
			if orphan {
				b.tidy(b.fs.PathJoin(dir, name))
			}
		}
	}
	return nil
}

// orphan reports whether the file of that name belongs to no visible object. One
// that no object could have is not ours to remove.
func (b *blobs) orphan(name string) (bool, error) {
	if root, err := b3.Parse("b3:" + strings.TrimSuffix(name, outboardSuffix)); err == nil {
		e, ok, err := b.index.get(root)
		return !ok || small(e.size), err
	}
	return false, nil
}
