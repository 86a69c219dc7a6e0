package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// adopt reads every large object to its end: first those that the segments
// name, then those that are there without, which a store of format 1, or
// another node of the bucket, has put.
func (r *rebuild) adopt() error {
	err := r.d.index.eachEntry(func(e entry) error {
		if small(e.size) {
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
		return readError(err)
	}
	for _, name := range names {
		root, err := b3.Parse("b3:" + name)
		if err != nil {
			continue // an outboard, or not ours
		}
		info, err := r.d.fs.Stat(r.d.fs.PathJoin(dir, name))
		if err != nil {
			return readError(err)
		}
		if err := r.stray(root, info.Size()); err != nil {
			return err
		}
	}
	return nil
}

// stray enters a large object unless the index has it.
func (r *rebuild) stray(root b3.Root, size int64) error {
	if small(size) || size > b3.MaxSize {
		return nil // not ours
	}
	_, ok, err := r.d.index.get(root)
	if err != nil || ok {
		return err
	}
	e := entry{root: root, size: size}
	whole, err := r.object(e)
	if err != nil || !whole {
		return err
	}
	r.report.Adopted++
	return r.d.index.set(rootKey(keyObject, root), appendEntry(nil, e), false)
}

// object reads and hashes e and puts its outboard in place. What is wrong is
// marked, and entered for it, so that nobody takes it for a file that is not
// needed.
func (r *rebuild) object(e entry) (whole bool, err error) {
	if err := r.ctx.Err(); err != nil {
		return false, err
	}
	err = r.hash(e)
	r.at.Objects++
	r.at.Bytes += e.size
	r.progress()
	if err == nil || status.Of(err) != status.Corrupt {
		return err == nil, err
	}
	if errors.Is(err, damage("missing")) {
		r.report.Missing++
	} else {
		r.report.Damaged++
	}
	r.d.log.Warn("a large object is damaged", "root", e.root, "err", err)
	e.corrupt = true
	return false, r.d.index.set(rootKey(keyObject, e.root), appendEntry(nil, e), false)
}

// hash writes e's outboard, or returns corrupt.
func (r *rebuild) hash(e entry) error {
	b := r.d.blobs
	data, err := b.openData(e)
	if err != nil {
		return err
	}
	defer data.Close() // only read
	temp := b.tempName()
	f, err := b.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return writeError("create a file", err)
	}
	err = r.hashTo(f, data, e)
	if err == nil {
		err = writeError("sync a file", f.SyncData())
	}
	if e := f.Close(); err == nil {
		err = writeError("close a file", e)
	}
	if err == nil {
		err = writeError("rename a file", b.fs.Rename(temp, b.objectPath(e.root)+outboardSuffix))
	}
	if err != nil {
		b.tidy(temp)
		return fmt.Errorf("%s: %w", e.root, err)
	}
	return nil
}

func (r *rebuild) hashTo(f vfs.File, data file, e entry) error {
	h := b3.NewHasher(&appender{f: f}, r.d.cfg.HashWorkers)
	n, err := h.ReadFrom(&source{ctx: r.ctx, r: io.NewSectionReader(data, 0, e.size)})
	if err != nil {
		h.Reset(nil) // joins its goroutines
		return readError(err)
	}
	root, _, err := h.Sum()
	switch {
	case err != nil:
		return err
	case n != e.size:
		return damage("short")
	case root != e.root:
		return damage("digest")
	}
	return nil
}
