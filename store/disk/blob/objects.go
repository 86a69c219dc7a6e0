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

// objects are the visible large objects. obj/xx/<hex> has exactly an object's bytes,
// obj/xx/<hex>.ob its outboard. publish.go publishes them.
type objects struct {
	*dir
	downloads *downloads
	log       Log
	remote    Remote // nil if the bytes are in obj/

	renaming chan struct{} // one token: its holder renames files into or out of obj/
	flushing chan struct{} // one token: its holder flushes

	mu       sync.Mutex     // lock: leaf
	ready    []*publication // synced, waiting for the renaming token
	deferred []*publication // not synced yet
	failed   error          // sticky: a deferred object is lost, or a directory is unsynced
}

func newObjects(d *dir, downloads *downloads, log Log, remote Remote) *objects {
	return &objects{
		dir: d, downloads: downloads, log: log, remote: remote,
		renaming: make(chan struct{}, 1), flushing: make(chan struct{}, 1), // bound: one token each
	}
}

// stagedPaths are the paths of the files of a large object that is being written.
type stagedPaths struct {
	data, outboard string
	note           *partNote // of a download that has a note
	unnamed        bool      // of an upload whose file name is not durable yet
}

func pathsOf(st *meta.Staging) *stagedPaths { return st.Own.(*stagedPaths) }

// Stage creates the files of a large object in tmp/. The caller closes them.
func (o *objects) Stage(root b3.Root) (*meta.Staging, error) {
	if err := o.space(2 * b3.GroupSize); err != nil {
		return nil, err
	}
	name := o.tempName()
	at := &stagedPaths{data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Root: root, Own: at}
	data, err := o.create(at.data)
	if err != nil {
		return nil, err
	}
	outboard, err := o.create(at.outboard)
	if err != nil {
		_ = data.Close()
		o.unlinkOrLog(at.data)
		return nil, err
	}
	st.Pair = meta.Pair{Data: data, Outboard: newOutboardFile(outboard)}
	return st, nil
}

// Discard removes the files of st, and the note if it is a download.
func (o *objects) Discard(st *meta.Staging) error {
	at := pathsOf(st)
	if at.note != nil {
		if err := o.downloads.DropPartial(st.Root); err != nil {
			return err
		}
		st.Kept, at.note = false, nil
	}
	return errors.Join(o.unlink(at.data), o.unlink(at.outboard))
}

// OpenPair opens a large object, unverified, for reading. If there is a remote, it
// fetches a missing or short outboard.
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

// File returns the path of the file with exactly the bytes of an object. ok is false for
// a small object, and if there is a remote.
func (o *objects) File(e meta.Entry) (path string, ok bool) {
	return o.objectPath(e.Root), !meta.Small(e.Size) && o.remote == nil
}

// openData opens an object's bytes: the file in obj/, or the remote's if there is none.
func (o *objects) openData(e meta.Entry) (meta.File, error) {
	name := o.objectPath(e.Root)
	if o.remote != nil {
		if _, err := o.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return o.remote.OpenObject(e.Root, e.Size), nil
		}
	}
	return o.openFile(name, e.Size)
}

// fetchOnce is the maximum number of bytes of an outboard that one request fetches.
const fetchOnce = 4 << 20

// fetchOutboard replaces a missing or short outboard of e with the remote's copy.
// Reads verify it, as they do every outboard.
func (o *objects) fetchOutboard(name string, e meta.Entry) error {
	n := b3.OutboardSize(e.Size)
	return o.replace(name, func(f vfs.File) error {
		from := io.NewSectionReader(o.remote.OpenOutboard(e.Root, e.Size), 0, n)
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{from}, make([]byte, min(n, fetchOnce)))
		return err
	})
}

// Rehash hashes the bytes of e with the given number of goroutines and writes a new
// outboard. It returns a defect if the bytes are not those of e.
func (o *objects) Rehash(ctx context.Context, e meta.Entry, workers int) error {
	data, err := o.openData(e)
	if err != nil {
		return err
	}
	defer data.Close() // only read
	r := &throttledReader{ctx: ctx, r: io.NewSectionReader(data, 0, e.Size)}
	return o.rehash(e, workers, r, func(int64) error { return nil })
}

// rehash is Rehash of the bytes of r. space is called while the outboard is written.
func (o *objects) rehash(e meta.Entry, workers int, r io.Reader, space func(int64) error) error {
	return o.replace(o.objectPath(e.Root)+outboardSuffix, func(f vfs.File) error {
		h := b3.NewHasher(&meta.Appender{F: &stagedFile{f: f, space: space}}, workers)
		n, err := h.ReadFrom(r)
		if err != nil {
			h.Reset(nil) // waits for its goroutines
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

// throttledReader reads at most rate bytes per second, until ctx is done.
type throttledReader struct {
	ctx  context.Context
	r    io.Reader
	rate int64 // bytes per second; 0: no limit
	owed int64 // bytes read since the last wait
}

// Read implements io.Reader.
func (p *throttledReader) Read(b []byte) (int, error) {
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
