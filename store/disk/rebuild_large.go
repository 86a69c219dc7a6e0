package disk

import (
	"errors"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// adopt reads and hashes every large object: first those that the segments name, then
// other files. A store of format 1, or another node of the bucket, wrote those.
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
		if err := r.adoptDir(r.d.dir.objectDir(i)); err != nil {
			return err
		}
	}
	if r.d.cloud == nil {
		return nil
	}
	return r.d.cloud.Each(r.ctx, r.adoptFile)
}

// adoptDir is adopt for the files of one directory of obj/.
func (r *rebuild) adoptDir(dir string) error {
	names, err := r.d.fs.List(dir)
	if err != nil {
		return meta.OpenError(err)
	}
	for _, name := range names {
		root, err := b3.Parse("b3:" + name)
		if err != nil {
			continue // an outboard, or no file of the store
		}
		info, err := r.d.fs.Stat(r.d.fs.PathJoin(dir, name))
		if err != nil {
			return meta.OpenError(err)
		}
		if err := r.adoptFile(root, info.Size()); err != nil {
			return err
		}
	}
	return nil
}

// adoptFile adds a large object to the index if its bytes are right. It does nothing
// if the index has the object, or if the object was removed and its files wait to be
// unlinked.
func (r *rebuild) adoptFile(root b3.Root, size int64) error {
	if meta.Small(size) || size > b3.MaxSize {
		return nil // no file of the store
	}
	_, ok, err := r.d.index.Get(root)
	if err != nil || ok {
		return err
	}
	if _, going, err := r.d.index.FileRemoval(root); err != nil || going {
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

// object reads and hashes e, and writes its outboard. If the bytes are wrong or
// missing, it adds e to the index as corrupt, so that recovery does not remove the
// file as one that no object needs.
func (r *rebuild) object(e meta.Entry) (whole bool, err error) {
	if err := r.ctx.Err(); err != nil {
		return false, err
	}
	err = r.d.Rehash(r.ctx, e, r.d.cfg.HashWorkers)
	r.done.Objects++
	r.done.Bytes += e.Size
	r.progress()
	switch {
	case err == nil:
		return true, nil
	case status.Of(err) != status.Corrupt:
		return false, fmt.Errorf("%s: %w", e.Root, err)
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
