package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
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

// findOrphans lists the files in obj/ that the index does not name, when the
// store opens.
func (b *blobs) findOrphans() error {
	for i := range 256 {
		dir := b.path(fsys.DirObjects, fmt.Sprintf("%02x", i))
		names, err := b.fs.List(dir)
		if err != nil {
			return meta.ReadError(err)
		}
		found := map[b3.Root]*orphan{}
		for _, name := range names {
			if err := b.lookAt(name, found); err != nil {
				return err
			}
		}
		for _, o := range found {
			if len(b.orphans) == maxOrphans {
				b.logger.Warn("there are more files in obj/ that no record names; the next start looks at them", "files", maxOrphans)
				return b.index.SetOrphans()
			}
			b.orphans = append(b.orphans, *o)
		}
	}
	if len(b.orphans) == 0 {
		return nil
	}
	return b.index.SetOrphans()
}

// lookAt adds a file to found unless it is a visible object's, or none that an
// object could have: that is not ours.
func (b *blobs) lookAt(name string, found map[b3.Root]*orphan) error {
	base, isOutboard := strings.CutSuffix(name, outboardSuffix)
	root, err := b3.Parse("b3:" + base)
	if err != nil {
		return nil //nolint:nilerr // no object has that name
	}
	e, ok, err := b.index.Get(root)
	if err != nil || ok && !meta.Small(e.Size) {
		return err
	}
	o := lookUp(found, root)
	o.root = root
	o.outboard = o.outboard || isOutboard
	o.data = o.data || !isOutboard
	return nil
}

// adoptAll looks at the files that findOrphans found, one at a time, until ctx
// is done.
func (d *Backend) adoptAll(ctx context.Context) {
	defer close(d.blobs.adopted)
	if len(d.blobs.orphans) == 0 {
		return
	}
	select {
	case <-d.opened:
	case <-ctx.Done():
		return
	}
	taken := 0
	for _, o := range d.blobs.orphans {
		did, err := d.adopt(ctx, o)
		if ctx.Err() != nil {
			return // the next start goes on
		}
		if err != nil {
			d.log.Warn("a file that no record names could not be looked at; it stays", "root", o.root, "err", err)
		}
		if did {
			d.damage.Count.Adopted.Add(1)
			taken++
		}
	}
	d.log.Info("files that no record named were looked at", "files", len(d.blobs.orphans), "objects", taken)
	if len(d.blobs.orphans) < maxOrphans {
		if err := d.index.DropOrphans(); err != nil {
			d.log.Warn("the next start looks again at files that no record names", "err", err)
		}
	}
}

// adopt makes an object of the files of o when they prove it.
func (d *Backend) adopt(ctx context.Context, o orphan) (did bool, err error) {
	b := d.blobs
	name := b.objectPath(o.root)
	if d.cloud != nil {
		return false, d.adoptOutboard(ctx, o)
	}
	if o.data {
		info, err := b.fs.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // stored or removed meanwhile
		}
		if err != nil {
			return false, meta.ReadError(err)
		}
		if size := info.Size(); !meta.Small(size) && size <= b3.MaxSize {
			if err = b.hashOrphan(ctx, o.root, size); err == nil {
				did, err = d.adoptWhole(o.root, size)
				if did && d.arrived != nil {
					d.arrived(ctx, o.root, size)
				}
				return did, err
			}
			if status.Of(err) != status.Corrupt {
				return false, err
			}
		}
	}
	return false, b.refuseOrphan(o)
}

// refuseOrphan puts away what proves nothing. An outboard alone is no damage: a
// crash leaves one, on a file system that does not keep the order of renames.
func (b *blobs) refuseOrphan(o orphan) error {
	b.slot <- struct{}{} // held for a few renames and syncs
	defer func() { <-b.slot }()
	if free, err := b.unclaimed(o.root); !free {
		return err
	}
	name := b.objectPath(o.root)
	if o.data {
		b.setAside(meta.Damage{
			Kind: meta.DamageFile, Roots: []b3.Root{o.root}, Reason: "the bytes of this file, which no record names, are not those of its name",
		}, name, name+outboardSuffix)
	} else if err := b.aside.Put(name + outboardSuffix); err != nil {
		return err
	}
	return fsys.SyncDir(b.fs, b.fs.PathDir(name))
}

// adoptWhole enters an object whose bytes are proved and whose outboard is new.
func (d *Backend) adoptWhole(root b3.Root, size int64) (did bool, err error) {
	b := d.blobs
	if d.denied != nil {
		if err := d.denied(root); err != nil {
			return false, err
		}
	}
	b.slot <- struct{}{} // held for a few renames and syncs
	defer func() { <-b.slot }()
	if free, err := b.unclaimed(root); !free {
		return false, err
	}
	name := b.objectPath(root)
	if info, err := b.fs.Stat(name); err != nil || info.Size() != size {
		return false, nil // removed meanwhile
	}
	if err := fsys.SyncDir(b.fs, b.fs.PathDir(name)); err != nil {
		return false, err
	}
	return d.segments.Adopt(meta.Entry{Root: root, Size: size})
}

// unclaimed reports whether root is neither stored nor being removed. The slot is
// held: nobody stores it.
func (b *blobs) unclaimed(root b3.Root) (bool, error) {
	e, ok, err := b.index.Get(root)
	if err != nil || ok && !meta.Small(e.Size) {
		return false, err
	}
	_, going, err := b.index.GoneNumber(root)
	return err == nil && !going, err
}

// adoptOutboard removes an outboard whose object is not in the bucket.
func (d *Backend) adoptOutboard(ctx context.Context, o orphan) error {
	b := d.blobs
	if o.data || d.cloud.here() != nil {
		return nil // it stays
	}
	_, err := d.cloud.bucket.Stat(ctx, cloudKey(cloudObjects, o.root))
	if status.Of(err) != status.NotFound {
		return nil // the object is there, or it cannot be told
	}
	b.slot <- struct{}{} // held for a removal and a sync
	defer func() { <-b.slot }()
	if free, err := b.unclaimed(o.root); !free {
		return err
	}
	return b.unlink(b.objectPath(o.root) + outboardSuffix)
}

// hashOrphan proves the bytes of an orphan, makes them durable, and puts its
// outboard in place. Bytes that are not root's are corrupt.
func (b *blobs) hashOrphan(ctx context.Context, root b3.Root, size int64) error {
	f, err := b.openFile(b.objectPath(root), size)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	temp := b.tempName()
	outboard, err := b.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.WriteError("create a file", err)
	}
	err = hashTo(ctx, &stagedFile{f: outboard, space: b.space}, f, root, size)
	if err == nil {
		err = meta.WriteError("sync a file", errors.Join(outboard.SyncData(), f.SyncData()))
	}
	if e := outboard.Close(); err == nil {
		err = meta.WriteError("close a file", e)
	}
	if err == nil {
		err = meta.WriteError("rename a file", b.fs.Rename(temp, b.objectPath(root)+outboardSuffix))
	}
	if err != nil {
		b.tidy(temp)
	}
	return err
}

// hashTo hashes what must be root's size bytes, at adoptRate, and writes their
// outboard.
func hashTo(ctx context.Context, outboard io.WriterAt, data io.ReaderAt, root b3.Root, size int64) error {
	h := b3.NewHasher(&meta.Appender{F: outboard}, 1)
	n, err := h.ReadFrom(&paced{ctx: ctx, r: io.NewSectionReader(data, 0, size)})
	if err != nil {
		h.Reset(nil) // joins its goroutines
		return meta.ReadError(err)
	}
	got, _, err := h.Sum()
	switch {
	case err != nil:
		return err
	case n != size:
		return meta.Defect("short")
	case got != root:
		return meta.Defect("digest")
	}
	return nil
}

// paced reads at adoptRate.
type paced struct {
	ctx  context.Context
	r    io.Reader
	owed int64
}

func (p *paced) Read(b []byte) (int, error) {
	if p.owed >= 1<<20 {
		wait := time.Duration(float64(p.owed) / adoptRate * float64(time.Second))
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
