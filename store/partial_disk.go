package store

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
)

// The embedded backend keeps a partial object as part/<hex> and <hex>.ob, which
// are sparse, and what is in them under keyPart of the index.

func (d *disk) resume(root b3.Root) (*staging, partialRecord, []partialPage, error) {
	return d.blobs.resume(root)
}

func (d *disk) save(st *staging, rec partialRecord, pages []partialPage) error {
	return d.blobs.save(st, rec, pages)
}

func (d *disk) partial(root b3.Root) (partialRecord, bool, error) { return d.index.part(root) }

func (d *disk) partials(root b3.Root, page []partialRecord) ([]partialRecord, error) {
	err := d.index.parts(root, func(rec partialRecord) bool {
		page = append(page, rec)
		return len(page) < cap(page)
	})
	return page, err
}

func (d *disk) dropPartial(root b3.Root) error { return d.blobs.dropPart(root) }

func (b *blobs) partPath(root b3.Root) string { return b.path(dirPart, root.Hex()) }

func (b *blobs) resume(root b3.Root) (*staging, partialRecord, []partialPage, error) {
	rec, ok, err := b.index.part(root)
	if !ok {
		return nil, partialRecord{}, nil, err
	}
	var pages []partialPage
	err = b.index.scan(pageKey(root, 0), pageKey(root, -1), func(k, v []byte) (bool, error) {
		page, err := decodePage(k, v)
		pages = append(pages, page)
		return err == nil, err
	})
	if err != nil {
		return nil, partialRecord{}, nil, err
	}
	name := b.partPath(root)
	st := &staging{root: root, kept: true, dataPath: name, outboardPath: name + outboardSuffix}
	data, err := b.reopen(st.dataPath)
	if err != nil {
		return nil, partialRecord{}, nil, err
	}
	outboard, err := b.reopen(st.outboardPath)
	if err != nil {
		_ = data.Close() // nothing was written to it
		return nil, partialRecord{}, nil, err
	}
	st.pair = pair{data: data, outboard: outboard}
	return st, rec, pages, nil
}

// reopen opens a file that save synced.
func (b *blobs) reopen(name string) (*stagedFile, error) {
	f, err := b.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, readError(err)
	}
	return &stagedFile{f: f, space: b.space}, nil
}

// save syncs the files, their names with the first one, and then writes to the
// index, with sync when groups came: what the index says is on disk.
func (b *blobs) save(st *staging, rec partialRecord, pages []partialPage) error {
	if err := b.index.failure(); err != nil {
		return err
	}
	if len(pages) > 0 {
		if err := syncStaged(st); err != nil {
			return err
		}
	}
	if !st.kept {
		if err := syncDir(b.fs, b.path(dirPart)); err != nil {
			st.failed = err
			return err
		}
	}
	batch := b.index.db.NewBatch()
	err := batch.Set(rootKey(keyPart, rec.root), encodePartial(rec), nil)
	for i := range pages {
		if err == nil {
			err = batch.Set(pageKey(rec.root, pages[i].n), encodePage(&pages[i].bits), nil)
		}
	}
	if err != nil {
		return err
	}
	if err := b.index.apply(batch, len(pages) > 0); err != nil {
		return err
	}
	st.kept = true
	return nil
}

// dropPart removes what the index has of root, then the files: after a crash in
// between they belong to nothing and go.
func (b *blobs) dropPart(root b3.Root) error {
	if err := b.index.forgetPart(root); err != nil {
		return err
	}
	name := b.partPath(root)
	return errors.Join(b.unlink(name), b.unlink(name+outboardSuffix))
}

// settleParts brings part/ and the index together when the store opens: what
// the index has is put back where a crash moved it away on its way into obj/;
// what only one of them knows, and parts of what is whole, is removed.
func (b *blobs) settleParts() error {
	var gone []b3.Root
	var failure error
	err := b.index.parts(b3.Root{}, func(rec partialRecord) bool {
		var usable bool
		if usable, failure = b.reclaim(rec.root); !usable {
			gone = append(gone, rec.root)
		}
		return failure == nil
	})
	if err == nil {
		err = failure
	}
	if err != nil {
		return err
	}
	for _, root := range gone {
		if err := b.dropPart(root); err != nil {
			return err
		}
	}
	uploads, err := b.settleUploads()
	if err != nil {
		return err
	}
	names, err := b.fs.List(b.path(dirPart))
	if err != nil {
		return readError(err)
	}
	for _, name := range names {
		var known bool
		if id, ok := parseUploadID(strings.TrimSuffix(name, outboardSuffix)); ok {
			_, known = uploads[id]
		} else if root, err := b3.Parse("b3:" + strings.TrimSuffix(name, outboardSuffix)); err == nil {
			if _, known, err = b.index.part(root); err != nil {
				return err
			}
		}
		if !known {
			b.tidy(b.path(dirPart, name))
		}
	}
	return nil
}

// reclaim reports whether root's files are where the index says, or could be
// put back there.
func (b *blobs) reclaim(root b3.Root) (usable bool, err error) {
	e, whole, err := b.index.get(root)
	if err != nil || whole && !e.corrupt {
		return false, err
	}
	for _, suffix := range []string{"", outboardSuffix} {
		part := b.partPath(root) + suffix
		_, err := b.fs.Stat(part)
		if errors.Is(err, fs.ErrNotExist) {
			err = b.fs.Rename(b.objectPath(root)+suffix, part)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, writeError("put back a file", err)
		}
	}
	return true, nil
}

// dropPart removes in batch all that the index has of a part of root.
func dropPart(batch *pebble.Batch, root b3.Root) error {
	if err := batch.Delete(rootKey(keyPart, root), nil); err != nil {
		return err
	}
	return batch.DeleteRange(pageKey(root, 0), pageKey(root, -1), nil)
}

// forgetPart removes a part of root, with sync: a bitmap that came back beside a
// newer file of that name would call here what is not.
func (x *index) forgetPart(root b3.Root) error {
	batch := x.db.NewBatch()
	if err := dropPart(batch, root); err != nil {
		return err
	}
	return x.apply(batch, true)
}

// part returns what is noted of a part of root.
func (x *index) part(root b3.Root) (partialRecord, bool, error) {
	v, done, ok, err := x.read(rootKey(keyPart, root))
	if !ok {
		return partialRecord{}, false, err
	}
	rec, err := decodePartial(root, v)
	_ = done.Close() // of memory
	return rec, err == nil, err
}

// parts scans the parts from root on, and jumps over their bitmaps.
func (x *index) parts(root b3.Root, use func(partialRecord) (more bool)) error {
	for more := true; more; {
		found := false
		err := x.scan(rootKey(keyPart, root), []byte{keyPart + 1}, func(k, v []byte) (bool, error) {
			if len(k) < 1+b3.Size {
				return false, errors.New("the index key of a part is malformed")
			}
			if len(k) > 1+b3.Size {
				return true, nil // a page of the bitmap of nothing
			}
			at := b3.Root(k[1:])
			rec, err := decodePartial(at, v)
			if err != nil {
				return false, err
			}
			found, root = true, at
			more = use(rec)
			return false, nil
		})
		if err != nil || !found {
			return err
		}
		if more {
			root, more = next(root)
		}
	}
	return nil
}
