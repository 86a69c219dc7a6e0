package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/meta"
)

// Files in obj/ that the index does not name, and that no removal accounts for,
// are what a crash left between a rename and its record, or what is left of an
// object whose record is lost. Bytes that prove their name become an object that
// nobody pins; what proves nothing goes to quarantine/.

// adoptRate is how many bytes a second are read for that, and maxOrphans how
// many are looked at after one start.
const (
	adoptRate  = 64 << 20
	maxOrphans = 1 << 16
)

// orphan is a name of which there are files in obj/.
type orphan struct {
	root           b3.Root
	data, outboard bool
}

// orphans are the files in obj/ that no record names. One goroutine looks at
// them.
type orphans struct {
	*objects
	damage  *damage.List
	denied  func(root b3.Root) error // may be nil
	arrived func(ctx context.Context, root b3.Root, size int64)

	list []orphan      // found by the start
	done chan struct{} // closed when they were looked at
}

func newOrphans(objects *objects, o Options) *orphans {
	return &orphans{objects: objects, damage: o.Damage, denied: o.Denied, arrived: o.Arrived, done: make(chan struct{})}
}

// find lists the files in obj/ that the index does not name, when the
// store opens.
func (o *orphans) find() error {
	for i := range 256 {
		dir := o.path(fsys.DirObjects, fmt.Sprintf("%02x", i))
		names, err := o.fs.List(dir)
		if err != nil {
			return meta.ReadError(err)
		}
		found := map[b3.Root]*orphan{}
		for _, name := range names {
			if err := o.lookAt(name, found); err != nil {
				return err
			}
		}
		for _, x := range found {
			if len(o.list) == maxOrphans {
				o.logger.Warn("there are more files in obj/ that no record names; the next start looks at them", "files", maxOrphans)
				return o.index.SetOrphans()
			}
			o.list = append(o.list, *x)
		}
	}
	if len(o.list) == 0 {
		return nil
	}
	return o.index.SetOrphans()
}

// lookAt adds a file to found unless it is a visible object's, or none that an
// object could have: that is not ours.
func (o *orphans) lookAt(name string, found map[b3.Root]*orphan) error {
	base, isOutboard := strings.CutSuffix(name, outboardSuffix)
	root, err := b3.Parse("b3:" + base)
	if err != nil {
		return nil //nolint:nilerr // no object has that name
	}
	e, ok, err := o.index.Get(root)
	if err != nil || ok && !meta.Small(e.Size) {
		return err
	}
	x := lookUp(found, root)
	x.root = root
	x.outboard = x.outboard || isOutboard
	x.data = x.data || !isOutboard
	return nil
}

// adoptAll looks at the files that find found, one at a time, once opened is
// closed and until ctx is done.
func (o *orphans) adoptAll(ctx context.Context, opened <-chan struct{}) {
	defer close(o.done)
	if len(o.list) == 0 {
		return
	}
	select {
	case <-opened:
	case <-ctx.Done():
		return
	}
	taken := 0
	for _, x := range o.list {
		did, err := o.adopt(ctx, x)
		if ctx.Err() != nil {
			return // the next start goes on
		}
		if err != nil {
			o.logger.Warn("a file that no record names could not be looked at; it stays", "root", x.root, "err", err)
		}
		if did {
			o.damage.Count.Adopted.Add(1)
			taken++
		}
	}
	o.logger.Info("files that no record named were looked at", "files", len(o.list), "objects", taken)
	if len(o.list) < maxOrphans {
		if err := o.index.DropOrphans(); err != nil {
			o.logger.Warn("the next start looks again at files that no record names", "err", err)
		}
	}
}

// adopt makes an object of the files of x when they prove it.
func (o *orphans) adopt(ctx context.Context, x orphan) (did bool, err error) {
	if o.remote != nil {
		return false, o.dropOutboard(ctx, x)
	}
	if x.data {
		info, err := o.fs.Stat(o.objectPath(x.root))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // stored or removed meanwhile
		}
		if err != nil {
			return false, meta.ReadError(err)
		}
		if size := info.Size(); !meta.Small(size) && size <= b3.MaxSize {
			e := meta.Entry{Root: x.root, Size: size}
			if err = o.prove(ctx, e); err == nil {
				did, err = o.adoptWhole(e)
				if did && o.arrived != nil {
					o.arrived(ctx, e.Root, e.Size)
				}
				return did, err
			}
			if status.Of(err) != status.Corrupt {
				return false, err
			}
		}
	}
	return false, o.refuse(x)
}

// prove hashes the bytes of an orphan, makes them durable, and makes its outboard
// anew. Bytes that are not e's are corrupt.
func (o *orphans) prove(ctx context.Context, e meta.Entry) error {
	f, err := o.openFile(o.objectPath(e.Root), e.Size)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	if err := o.rehash(e, 1, &paced{ctx: ctx, r: io.NewSectionReader(f, 0, e.Size), rate: adoptRate}, o.space); err != nil {
		return err
	}
	return meta.WriteError("sync a file", f.SyncData())
}

// refuse puts away what proves nothing. An outboard alone is no damage: a crash
// leaves one, on a file system that does not keep the order of renames.
func (o *orphans) refuse(x orphan) error {
	o.slot <- struct{}{} // held for a few renames and syncs
	defer func() { <-o.slot }()
	if free, err := o.unclaimed(x.root); !free {
		return err
	}
	name := o.objectPath(x.root)
	if x.data {
		o.setAside(meta.Damage{
			Kind: meta.DamageFile, Roots: []b3.Root{x.root}, Reason: "the bytes of this file, which no record names, are not those of its name",
		}, name, name+outboardSuffix)
	} else if err := o.aside.Put(name + outboardSuffix); err != nil {
		return err
	}
	return fsys.SyncDir(o.fs, o.fs.PathDir(name))
}

// adoptWhole enters an object whose bytes are proved and whose outboard is new.
func (o *orphans) adoptWhole(e meta.Entry) (did bool, err error) {
	if o.denied != nil {
		if err := o.denied(e.Root); err != nil {
			return false, err
		}
	}
	o.slot <- struct{}{} // held for a few renames and syncs
	defer func() { <-o.slot }()
	if free, err := o.unclaimed(e.Root); !free {
		return false, err
	}
	name := o.objectPath(e.Root)
	if info, err := o.fs.Stat(name); err != nil || info.Size() != e.Size {
		return false, nil // removed meanwhile
	}
	if err := fsys.SyncDir(o.fs, o.fs.PathDir(name)); err != nil {
		return false, err
	}
	return o.log.Adopt(e)
}

// unclaimed reports whether root is neither stored nor being removed. The slot is
// held: nobody stores it.
func (o *orphans) unclaimed(root b3.Root) (bool, error) {
	e, ok, err := o.index.Get(root)
	if err != nil || ok && !meta.Small(e.Size) {
		return false, err
	}
	_, going, err := o.index.GoneNumber(root)
	return err == nil && !going, err
}

// dropOutboard removes an outboard whose object the remote lacks.
func (o *orphans) dropOutboard(ctx context.Context, x orphan) error {
	if x.data || !o.remote.Lacks(ctx, x.root) {
		return nil // it stays
	}
	o.slot <- struct{}{} // held for a removal and a sync
	defer func() { <-o.slot }()
	if free, err := o.unclaimed(x.root); !free {
		return err
	}
	return o.unlink(o.objectPath(x.root) + outboardSuffix)
}
