package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"allium/gateway/policy"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// Orphans are files in obj/ that have no entry in the index and do not wait to be
// removed. A crash between a rename and its record leaves one, and so does the loss
// of a record. If the bytes hash to the file's name, they become an object without a
// pin. Other orphans go to quarantine/.

const (
	adoptRate  = 64 << 20 // bytes of orphans read per second
	maxOrphans = 1 << 16  // orphans looked at after one start
)

// orphan is the files in obj/ of one address.
type orphan struct {
	root           b3.Root
	data, outboard bool
}

// orphans are the orphans that a start found. One goroutine adopts them.
type orphans struct {
	*objects
	damage  *damage.List
	filter  policy.Filter
	adopted func(ctx context.Context, root b3.Root, size int64)

	list []orphan
	done chan struct{} // closed when all were looked at
}

func newOrphans(objects *objects, o Options) *orphans {
	return &orphans{
		objects: objects, damage: o.Damage, filter: o.Filter, adopted: o.Adopted, done: make(chan struct{}),
	}
}

// find lists the orphans when the store opens.
func (o *orphans) find() error {
	for i := range 256 {
		dir := o.path(fsys.DirObjects, fmt.Sprintf("%02x", i))
		names, err := o.fs.List(dir)
		if err != nil {
			return meta.ReadError(err)
		}
		found := map[b3.Root]*orphan{}
		for _, name := range names {
			if err := o.addOrphan(name, found); err != nil {
				return err
			}
		}
		for _, x := range found {
			if len(o.list) == maxOrphans {
				o.logger.Warn("obj/ has more files without a record; the next start looks at the others",
					"files", maxOrphans)
				return o.index.Orphans.Set(nil, false)
			}
			o.list = append(o.list, *x)
		}
	}
	if len(o.list) == 0 {
		return nil
	}
	return o.index.Orphans.Set(nil, false)
}

// addOrphan adds a file to found, unless it belongs to a visible object or does not
// have the name of an object.
func (o *orphans) addOrphan(name string, found map[b3.Root]*orphan) error {
	base, isOutboard := strings.CutSuffix(name, outboardSuffix)
	root, err := b3.Parse("b3:" + base)
	if err != nil {
		return nil //nolint:nilerr // not the name of an object
	}
	e, ok, err := o.index.Get(root)
	if err != nil || ok && !meta.Small(e.Size) {
		return err
	}
	x := getOrNew(found, root)
	x.root = root
	x.outboard = x.outboard || isOutboard
	x.data = x.data || !isOutboard
	return nil
}

// adoptAll adopts the orphans one at a time, once opened is closed and until ctx is
// done.
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
	adopted := 0
	for _, x := range o.list {
		did, err := o.adopt(ctx, x)
		if ctx.Err() != nil {
			return // the next start continues
		}
		if err != nil {
			o.logger.Warn("a file without a record could not be read; it stays", "root", x.root, "err", err)
		}
		if did {
			o.damage.Count.Adopted.Add(1)
			adopted++
		}
	}
	o.logger.Info("files without a record were checked", "files", len(o.list), "objects", adopted)
	if len(o.list) < maxOrphans {
		if err := o.index.Orphans.Drop(); err != nil {
			o.logger.Warn("the next start checks files without a record again", "err", err)
		}
	}
}

// adopt makes the files of x an object if their bytes hash to its address.
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
				if did && o.adopted != nil {
					o.adopted(ctx, e.Root, e.Size)
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

// prove hashes the bytes of an orphan, makes them durable, and writes a new outboard.
// It returns a defect if the bytes are not those of e.
func (o *orphans) prove(ctx context.Context, e meta.Entry) error {
	f, err := o.openFile(o.objectPath(e.Root), e.Size)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	r := &throttledReader{ctx: ctx, r: io.NewSectionReader(f, 0, e.Size), rate: adoptRate}
	if err := o.rehash(e, 1, r, o.space); err != nil {
		return err
	}
	return meta.WriteError("sync a file", f.SyncData())
}

// refuse moves the files of x to quarantine/. An outboard without its data is not
// damage: a crash leaves one if the file system reorders renames.
func (o *orphans) refuse(x orphan) error {
	o.renaming <- struct{}{} // held for a few renames and syncs
	defer func() { <-o.renaming }()
	if free, err := o.unclaimed(x.root); !free {
		return err
	}
	name := o.objectPath(x.root)
	if x.data {
		o.moveToQuarantine(meta.Damage{
			Kind: meta.DamageFile, Roots: []b3.Root{x.root},
			Reason: "this file has no record, and its bytes do not hash to its name",
		}, name, name+outboardSuffix)
	} else if err := o.quarantine.Put(name + outboardSuffix); err != nil {
		return err
	}
	return fsys.SyncDir(o.fs, o.fs.PathDir(name))
}

// adoptWhole adds an object whose bytes are verified and whose outboard is new.
func (o *orphans) adoptWhole(e meta.Entry) (did bool, err error) {
	if err := o.filter.Object(e.Root); err != nil {
		return false, err
	}
	o.renaming <- struct{}{} // held for a few renames and syncs
	defer func() { <-o.renaming }()
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

// unclaimed reports whether root is neither stored nor being removed. The caller holds
// the renaming token, so that nothing publishes root meanwhile.
func (o *orphans) unclaimed(root b3.Root) (bool, error) {
	e, ok, err := o.index.Get(root)
	if err != nil || ok && !meta.Small(e.Size) {
		return false, err
	}
	_, going, err := o.index.FileRemoval(root)
	return err == nil && !going, err
}

// dropOutboard removes an outboard without data if the remote lacks its object.
func (o *orphans) dropOutboard(ctx context.Context, x orphan) error {
	if x.data || !o.remote.Lacks(ctx, x.root) {
		return nil // it stays
	}
	o.renaming <- struct{}{} // held for a removal and a sync
	defer func() { <-o.renaming }()
	if free, err := o.unclaimed(x.root); !free {
		return err
	}
	return o.unlink(o.objectPath(x.root) + outboardSuffix)
}
