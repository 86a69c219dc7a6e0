package store

import (
	"errors"
	"io/fs"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// The embedded backend keeps the bytes of an upload as part/<id>, and its
// outboard as <id>.ob, both from the start on; what is noted is under keyUpload
// of the index. Only of the bytes it is known what is durable: the outboard is
// made anew after a restart.

func (d *disk) uploads() ([]uploadRecord, error) { return d.blobs.uploads() }

func (d *disk) openUpload(rec uploadRecord, outboard int64) (*staging, error) {
	return d.blobs.openUpload(rec, outboard)
}

func (d *disk) noteUpload(rec uploadRecord, st *staging) error { return d.blobs.noteUpload(rec, st) }

func (d *disk) dropUpload(id uploadID) error { return d.blobs.dropUpload(id) }

func (b *blobs) uploadPath(id uploadID) string { return b.path(dirPart, id.String()) }

func (b *blobs) uploads() ([]uploadRecord, error) {
	var recs []uploadRecord
	err := b.index.scan([]byte{keyUpload}, []byte{keyUpload + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 1+len(uploadID{}) {
			return false, errors.New("the index key of an upload is malformed")
		}
		rec, err := decodeUpload(uploadID(k[1:]), v)
		recs = append(recs, rec)
		return err == nil, err
	})
	return recs, err
}

func (b *blobs) openUpload(rec uploadRecord, need int64) (*staging, error) {
	if rec.offset < rec.Length {
		if err := b.space(min(rec.Length-rec.offset, 2*b3.GroupSize)); err != nil {
			return nil, err
		}
	}
	name := b.uploadPath(rec.id)
	st := &staging{owned: true, unnamed: rec.offset == 0, dataPath: name, outboardPath: name + outboardSuffix}
	data, err := b.openGrowing(st.dataPath, rec.offset)
	if err != nil {
		return nil, err
	}
	outboard, err := b.openGrowing(st.outboardPath, need)
	if errors.Is(err, fs.ErrNotExist) {
		err = status.Errorf(status.Internal, "the outboard of an upload is gone; append again")
	}
	if err != nil {
		_ = data.Close() // nothing was written to it
		return nil, err
	}
	st.pair = pair{data: data, outboard: outboard}
	return st, nil
}

// openGrowing opens a file that must have need bytes, or else makes it anew.
func (b *blobs) openGrowing(name string, need int64) (*stagedFile, error) {
	if need == 0 {
		return b.create(name)
	}
	f, err := b.reopen(name) // which makes what is not there
	if err != nil {
		return nil, err
	}
	info, err := f.f.Stat()
	if err == nil && info.Size() < need {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}

// noteUpload syncs the bytes, their name with the first ones, and then writes to
// the index, with sync: what the index says is on disk. Of one that is done the
// files go.
func (b *blobs) noteUpload(rec uploadRecord, st *staging) error {
	if err := b.index.failure(); err != nil {
		return err
	}
	if st != nil {
		if err := writeError("sync a file", st.data.(*stagedFile).f.SyncData()); err != nil {
			return err
		}
		if st.unnamed {
			if err := syncDir(b.fs, b.path(dirPart)); err != nil {
				return err
			}
			st.unnamed = false
		}
	}
	if err := b.index.set(uploadKey(rec.id), encodeUpload(rec), true); err != nil {
		return err
	}
	if rec.done {
		b.tidy(b.uploadPath(rec.id), b.uploadPath(rec.id)+outboardSuffix)
	}
	return nil
}

// dropUpload removes what the index has, then the files: after a crash in
// between they belong to nothing and go.
func (b *blobs) dropUpload(id uploadID) error {
	if err := b.index.drop(uploadKey(id)); err != nil {
		return err
	}
	name := b.uploadPath(id)
	b.tidy(name, name+outboardSuffix)
	return nil
}

// settleUploads brings part/ and what the index has of uploads together when the
// store opens, and returns those whose files stay: bytes that a crash moved away
// on their way into obj/ are put back, and what lost its bytes is forgotten.
func (b *blobs) settleUploads() (map[uploadID]struct{}, error) {
	recs, err := b.uploads()
	if err != nil {
		return nil, err
	}
	stay := map[uploadID]struct{}{}
	for _, rec := range recs {
		whole := rec.done
		if !whole && !rec.root.IsZero() {
			e, ok, err := b.index.get(rec.root)
			if err != nil {
				return nil, err
			}
			whole = ok && !e.corrupt
		}
		if whole {
			continue // the files were moved, or are not needed
		}
		here, err := b.reclaimUpload(rec)
		if err != nil {
			return nil, err
		}
		if here {
			stay[rec.id] = struct{}{}
			continue
		}
		b.logger.Warn("the disk has lost the bytes of an upload; it is forgotten", "bytes", rec.offset)
		if err := b.index.drop(uploadKey(rec.id)); err != nil {
			return nil, err
		}
	}
	return stay, nil
}

// reclaimUpload reports whether the bytes of an upload are where they should be,
// or could be put back there.
func (b *blobs) reclaimUpload(rec uploadRecord) (here bool, err error) {
	if rec.offset == 0 {
		return true, nil
	}
	name := b.uploadPath(rec.id)
	info, err := b.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && !rec.root.IsZero() {
		err = b.fs.Rename(b.objectPath(rec.root), name)
		if err == nil {
			info, err = b.fs.Stat(name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, writeError("put back a file", err)
	}
	return info.Size() >= rec.offset, nil
}
