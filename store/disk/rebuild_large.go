package disk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// adopt reads every large object to its end: first those that the segments
// name, then those that are there without, which a store of format 1, or
// another node of the bucket, has put.
func (r *rebuild) adopt() error {
	err := r.d.index.EachEntry(func(e meta.Entry) error {
		if meta.Small(e.Size) {
			return r.ctx.Err()
		}
		_, err := r.object(e)
		return err
	})
	if err != nil {
		return err
	}
	for i := range 256 {
		if err := r.adoptDir(r.d.objectDir(i)); err != nil {
			return err
		}
	}
	if r.d.cloud == nil {
		return nil
	}
	for item, err := range r.d.cloud.bucket.List(r.ctx, cloudObjects) {
		if err != nil {
			return err
		}
		if root, ok := parseCloudKey(cloudObjects, item.Key); ok {
			if err := r.stray(root, item.Size); err != nil {
				return err
			}
		}
	}
	return nil
}

// adoptDir is adopt for the files of one directory of obj/.
func (r *rebuild) adoptDir(dir string) error {
	names, err := r.d.fs.List(dir)
	if err != nil {
		return meta.ReadError(err)
	}
	for _, name := range names {
		root, err := b3.Parse("b3:" + name)
		if err != nil {
			continue // an outboard, or not ours
		}
		info, err := r.d.fs.Stat(r.d.fs.PathJoin(dir, name))
		if err != nil {
			return meta.ReadError(err)
		}
		if err := r.stray(root, info.Size()); err != nil {
			return err
		}
	}
	return nil
}

// stray enters a large object unless the index has it, or knows that it was
// removed: its files are about to go.
func (r *rebuild) stray(root b3.Root, size int64) error {
	if meta.Small(size) || size > b3.MaxSize {
		return nil // not ours
	}
	_, ok, err := r.d.index.Get(root)
	if err != nil || ok {
		return err
	}
	if _, going, err := r.d.index.GoneNumber(root); err != nil || going {
		return err
	}
	e := meta.Entry{Root: root, Size: size}
	whole, err := r.object(e)
	if err != nil || !whole {
		return err
	}
	r.report.Adopted++
	r.d.damage.Count.Adopted.Add(1)
	return r.d.index.PutEntry(e)
}

// object reads and hashes e and puts its outboard in place. What is wrong is
// marked, and entered for it, so that nobody takes it for a file that is not
// needed.
func (r *rebuild) object(e meta.Entry) (whole bool, err error) {
	if err := r.ctx.Err(); err != nil {
		return false, err
	}
	err = r.hash(e)
	r.at.Objects++
	r.at.Bytes += e.Size
	r.progress()
	if err == nil || status.Of(err) != status.Corrupt {
		return err == nil, err
	}
	if errors.Is(err, meta.Defect("missing")) {
		r.report.Missing++
	} else {
		r.report.Damaged++
	}
	r.d.log.Warn("a large object is damaged", "root", e.Root, "err", err)
	e.Corrupt = true
	return false, r.d.index.PutEntry(e)
}

// hash writes e's outboard, or returns corrupt.
func (r *rebuild) hash(e meta.Entry) error {
	b := r.d.blobs
	data, err := b.openData(e)
	if err != nil {
		return err
	}
	defer data.Close() // only read
	temp := b.tempName()
	f, err := b.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.WriteError("create a file", err)
	}
	err = r.hashTo(f, data, e)
	if err == nil {
		err = meta.WriteError("sync a file", f.SyncData())
	}
	if e := f.Close(); err == nil {
		err = meta.WriteError("close a file", e)
	}
	if err == nil {
		err = meta.WriteError("rename a file", b.fs.Rename(temp, b.objectPath(e.Root)+outboardSuffix))
	}
	if err != nil {
		b.tidy(temp)
		return fmt.Errorf("%s: %w", e.Root, err)
	}
	return nil
}

func (r *rebuild) hashTo(f vfs.File, data meta.File, e meta.Entry) error {
	h := b3.NewHasher(&meta.Appender{F: f}, r.d.cfg.HashWorkers)
	n, err := h.ReadFrom(&ending{ctx: r.ctx, r: io.NewSectionReader(data, 0, e.Size)})
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
}

// ending is a reader that ends with a context.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (r *ending) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
