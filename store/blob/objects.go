package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// objects are the large objects: obj/xx/<hex> is an object's bytes and nothing
// else, <hex>.ob its outboard. publish.go says how one gets there.
type objects struct {
	*dir
	downloads *downloads
	log       Log
	remote    Remote // nil: the bytes are in obj/ too

	slot     chan struct{} // one token: who holds it renames
	flushing chan struct{} // one token: who holds it flushes

	mu       sync.Mutex
	ready    []*publication // synced, waiting for the slot
	deferred []*publication // not synced yet
	failed   error          // sticky: a deferred object is lost, or a directory is unsynced
}

func newObjects(d *dir, downloads *downloads, log Log, remote Remote) *objects {
	return &objects{
		dir: d, downloads: downloads, log: log, remote: remote,
		slot: make(chan struct{}, 1), flushing: make(chan struct{}, 1), // bound: one token each
	}
}

// place is where the files of a large object on its way in are.
type place struct {
	data, outboard string
	note           *partNote // of a download: its note is begun
	unnamed        bool      // of an upload: its name is not durable
}

func placeOf(st *meta.Staging) *place { return st.Own.(*place) }

// Stage makes the files of a large object in tmp/.
func (o *objects) Stage(root b3.Root) (*meta.Staging, error) {
	if err := o.space(2 * b3.GroupSize); err != nil {
		return nil, err
	}
	name := o.tempName()
	at := &place{data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Root: root, Own: at}
	data, err := o.create(at.data)
	if err != nil {
		return nil, err
	}
	outboard, err := o.create(at.outboard)
	if err != nil {
		_ = data.Close()
		o.tidy(at.data)
		return nil, err
	}
	st.Pair = meta.Pair{Data: data, Outboard: outboard}
	return st, nil
}

// Discard removes what Stage made, and what was noted of it as a download.
func (o *objects) Discard(st *meta.Staging) error {
	at := placeOf(st)
	if at.note != nil {
		if err := o.downloads.DropPartial(st.Root); err != nil {
			return err
		}
		st.Kept, at.note = false, nil
	}
	return errors.Join(o.unlink(at.data), o.unlink(at.outboard))
}

// OpenPair opens a large object, unverified. The pair is only read.
func (o *objects) OpenPair(e meta.Entry) (meta.Pair, error) {
	name := o.objectPath(e.Root) + outboardSuffix
	data, err := o.openData(e)
	if err != nil {
		return meta.Pair{}, err
	}
	outboard, err := o.openFile(name, b3.OutboardSize(e.Size))
	if err != nil && status.Of(err) == status.Corrupt && o.remote != nil {
		if err = o.fetchOutboard(name, e); err == nil {
			outboard, err = o.openFile(name, b3.OutboardSize(e.Size))
		}
	}
	if err != nil {
		_ = data.Close() // only read
		return meta.Pair{}, err
	}
	return meta.Pair{Data: data, Outboard: outboard}, nil
}

// openData opens an object's bytes: the file, or else the remote's.
func (o *objects) openData(e meta.Entry) (meta.File, error) {
	name := o.objectPath(e.Root)
	if o.remote != nil {
		if _, err := o.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return o.remote.OpenObject(e.Root, e.Size), nil
		}
	}
	return o.openFile(name, e.Size)
}

// fetchOnce is how much of an outboard is fetched at a time.
const fetchOnce = 4 << 20

// fetchOutboard writes the outboard of e, which is lost or cut here, from the
// remote. It is proved when it is read, like any.
func (o *objects) fetchOutboard(name string, e meta.Entry) error {
	n := b3.OutboardSize(e.Size)
	return o.replace(name, func(f vfs.File) error {
		from := io.NewSectionReader(o.remote.OpenOutboard(e.Root, e.Size), 0, n)
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{from}, make([]byte, min(n, fetchOnce)))
		return err
	})
}

// Rehash proves the bytes of e and makes its outboard anew, with that many
// goroutines. Bytes that are not e's are corrupt.
func (o *objects) Rehash(ctx context.Context, e meta.Entry, workers int) error {
	data, err := o.openData(e)
	if err != nil {
		return err
	}
	defer data.Close() // only read
	return o.rehash(e, workers, &paced{ctx: ctx, r: io.NewSectionReader(data, 0, e.Size)}, func(int64) error { return nil })
}

// rehash is Rehash for bytes that r reads. space is asked on the way.
func (o *objects) rehash(e meta.Entry, workers int, r io.Reader, space func(int64) error) error {
	return o.replace(o.objectPath(e.Root)+outboardSuffix, func(f vfs.File) error {
		h := b3.NewHasher(&meta.Appender{F: &stagedFile{f: f, space: space}}, workers)
		n, err := h.ReadFrom(r)
		if err != nil {
			h.Reset(nil) // joins its goroutines
			return meta.ReadError(err)
		}
		root, _, err := h.Sum()
		switch {
		case err != nil:
			return err
		case n != e.Size:
			return meta.Defect("short")
		case root != e.Root:
			return meta.Defect("digest")
		}
		return nil
	})
}

// paced reads with at most rate bytes a second, until a context ends.
type paced struct {
	ctx  context.Context
	r    io.Reader
	rate int64 // 0: no limit
	owed int64
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if p.rate > 0 && p.owed >= 1<<20 {
		wait := time.Duration(float64(p.owed) / float64(p.rate) * float64(time.Second))
		p.owed = 0
		if err := limits.Sleep(p.ctx, wait); err != nil {
			return 0, err
		}
	}
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	p.owed += int64(n)
	return n, err
}
