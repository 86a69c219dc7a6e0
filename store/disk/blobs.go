package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
	"allium/store/partial"
	"allium/store/segment"
	"allium/store/upload"
)

// blobs are the large objects: obj/xx/<hex> is an object's bytes and nothing
// else, <hex>.ob its outboard. How one gets there is in publish.go.
type blobs struct {
	fs     vfs.FS
	logger *slog.Logger
	index  *index.Index
	log    *segment.Log
	space  func(need int64) error
	path   func(elem ...string) string
	prefix string // of names in tmp/, unlike any other process's
	cloud  *cloud // where the bytes are; nil: in obj/ too
	serial atomic.Int64

	slot     chan struct{} // one token: who holds it renames
	flushing chan struct{} // one token: who holds it flushes

	syncing chan struct{} // one token: who holds it syncs part/
	aside   *damage.Quarantine
	parts   partTable
	found   []upload.Record // by the start, until they are asked for
	orphans []orphan        // by the start
	adopted chan struct{}   // closed when they were looked at
	forget  chan struct{}   // says that there are many removals

	mu       sync.Mutex
	seqs     map[upload.ID]uint64 // numbers of the notes of uploads
	gone     []string             // notes of which the files are unlinked, perhaps not durably
	ready    []*publication       // synced, waiting for the slot
	deferred []*publication       // not synced yet
	removed  map[b3.Root]uint64   // removals whose files are unlinked, by their numbers
	unlinked map[string]struct{}  // directories with removals that may not be durable
	failed   error                // sticky: a deferred object is lost, or a directory is unsynced
}

const outboardSuffix = ".ob"

func newBlobs(d *Backend) *blobs {
	return &blobs{
		fs: d.fs, logger: d.log, index: d.index, log: d.segments, space: d.space, path: d.path, cloud: d.cloud,
		prefix: fmt.Sprintf("%016x", rand.Uint64()), slot: make(chan struct{}, 1), flushing: make(chan struct{}, 1),
		unlinked: map[string]struct{}{}, removed: map[b3.Root]uint64{},
		adopted: make(chan struct{}), forget: make(chan struct{}, 1), // bound: one kick
		syncing: make(chan struct{}, 1), // bound: one token
		aside:   d.aside, parts: partTable{recs: map[b3.Root]partial.Record{}}, seqs: map[upload.ID]uint64{},
	}
}

// objectPath is where root's bytes are, or will be.
func (b *blobs) objectPath(root b3.Root) string {
	h := root.Hex()
	return b.path(fsys.DirObjects, h[:2], h)
}

// place is where the files of a large object on its way in are.
type place struct {
	data, outboard string
	note           *partNote // of a download: its note is begun
	unnamed        bool      // of an upload: its name is not durable
}

func placeOf(st *meta.Staging) *place { return st.Own.(*place) }

func (b *blobs) stage(root b3.Root) (*meta.Staging, error) {
	if err := b.space(2 * b3.GroupSize); err != nil {
		return nil, err
	}
	name := b.tempName()
	at := &place{data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Root: root, Own: at}
	data, err := b.create(at.data)
	if err != nil {
		return nil, err
	}
	outboard, err := b.create(at.outboard)
	if err != nil {
		_ = data.Close()
		b.tidy(at.data)
		return nil, err
	}
	st.Pair = meta.Pair{Data: data, Outboard: outboard}
	return st, nil
}

// tempName is a name in tmp/ that was not used before.
func (b *blobs) tempName() string {
	return b.path(fsys.DirTemp, fmt.Sprintf("%s-%d", b.prefix, b.serial.Add(1)))
}

func (b *blobs) create(name string) (*stagedFile, error) {
	f, err := b.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, meta.WriteError("create a file", err)
	}
	return &stagedFile{f: f, space: b.space}, nil
}

func (b *blobs) discard(st *meta.Staging) error {
	at := placeOf(st)
	if at.note != nil {
		if err := b.dropPart(st.Root); err != nil {
			return err
		}
		st.Kept, at.note = false, nil
	}
	return errors.Join(b.unlink(at.data), b.unlink(at.outboard))
}

func (b *blobs) unlink(name string) error {
	if err := b.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("remove a file", err)
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

func (b *blobs) open(e meta.Entry) (meta.Pair, error) {
	name := b.objectPath(e.Root)
	data, err := b.openData(e)
	if err != nil {
		return meta.Pair{}, err
	}
	outboard, err := b.openFile(name+outboardSuffix, b3.OutboardSize(e.Size))
	if err != nil && status.Of(err) == status.Corrupt && b.cloud != nil {
		if err = b.fetchOutboard(e.Root, e.Size); err == nil {
			outboard, err = b.openFile(name+outboardSuffix, b3.OutboardSize(e.Size))
		}
	}
	if err != nil {
		_ = data.Close() // only read
		return meta.Pair{}, err
	}
	return meta.Pair{Data: data, Outboard: outboard}, nil
}

// openData opens an object's bytes: the file, or else the bucket's.
func (b *blobs) openData(e meta.Entry) (meta.File, error) {
	name := b.objectPath(e.Root)
	if b.cloud != nil {
		if _, err := b.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return b.cloud.openObject(e.Root, e.Size), nil
		}
	}
	return b.openFile(name, e.Size)
}

// openFile opens a file that must have that size.
func (b *blobs) openFile(name string, size int64) (vfs.File, error) {
	f, err := b.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, meta.Defect("missing")
	}
	if err != nil {
		return nil, meta.ReadError(err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = meta.ReadError(err)
	case info.Size() != size:
		err = meta.Defect("short")
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, err
	}
	return f, nil
}

// Close makes removals durable: after an orderly close nobody looks for orphans.
func (b *blobs) Close() error {
	if len(b.gone) > 0 {
		if err := b.syncPart(); err != nil {
			return err
		}
	}
	for dir := range b.unlinked { // nobody removes any more
		if err := fsys.SyncDir(b.fs, dir); err != nil {
			return err
		}
	}
	return nil
}
