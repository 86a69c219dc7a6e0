package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/arriving/partial"
	"allium/store/arriving/resumable"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// fileUnnoted is a file in part/. It exists while a store is upgraded to format 3,
// until all notes are written. Meanwhile files without a note are not damage.
const fileUnnoted = "unnoted"

// MarkUnnoted creates part/unnoted in the store in dir, durably. It is called before
// FORMAT says 3.
func MarkUnnoted(f vfs.FS, dir string) error {
	part := f.PathJoin(dir, fsys.DirPart)
	h, err := f.Create(f.PathJoin(part, fileUnnoted), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = h.Close()
	}
	if err != nil {
		return meta.WriteError("write "+fileUnnoted, err)
	}
	return fsys.SyncDir(f, part)
}

// ClearUnnoted removes part/unnoted, durably. It is called before an index is
// replaced: the records in the index are lost, so files without a note may now belong
// to a download or an upload and are damage.
func ClearUnnoted(f vfs.FS, dir string) error {
	part := f.PathJoin(dir, fsys.DirPart)
	err := f.Remove(f.PathJoin(part, fileUnnoted))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return meta.WriteError("remove "+fileUnnoted, err)
	}
	return fsys.SyncDir(f, part)
}

// migrateNotes moves the records of downloads and uploads, which older formats than 3
// have in the index, to notes. It can be repeated after a crash.
func (f *Files) migrateNotes() error {
	parts, err := f.downloads.migrate()
	if err != nil {
		return err
	}
	uploads, err := f.uploads.migrate()
	if err != nil || !parts && !uploads {
		return err
	}
	if err := f.notes.syncPart(); err != nil {
		return err
	}
	return f.index.DropOldNotes()
}

// migrate writes the notes of downloads, one at a time.
func (d *downloads) migrate() (found bool, err error) {
	var rec meta.Partial
	var pages []meta.BitsPage
	write := func() error {
		if rec.Size == 0 {
			return nil
		}
		_, err := d.makePart(rec, pages)
		rec, pages = meta.Partial{}, nil
		return err
	}
	record := func(root b3.Root, v []byte) error {
		if err := write(); err != nil {
			return err
		}
		now, err := partial.DecodeRecord(root, v)
		if err != nil {
			d.noteDamage(d.partPath(root), meta.Damage{Kind: meta.DamageNote, Roots: []b3.Root{root}, Reason: lostNote})
			return nil //nolint:nilerr // added to the list of damage
		}
		rec = now
		return nil
	}
	bits := func(root b3.Root, n uint64, v []byte) {
		page, err := partial.DecodePage(n, v)
		if err == nil && rec.Size > 0 && root == rec.Root && page.Number <= (b3.Groups(rec.Size)-1)/meta.PageBits {
			pages = append(pages, page)
		} // a damaged page is dropped: its groups are fetched again
	}
	if found, err = d.index.EachOldPart(record, bits); err == nil {
		err = write()
	}
	return found, err
}

// migrate writes the notes of uploads.
func (u *uploads) migrate() (found bool, err error) {
	return u.index.EachOldUpload(func(id, v []byte) error {
		err := errors.New("the key is malformed")
		var rec meta.Upload
		if len(id) == len(meta.UploadID{}) {
			rec, err = resumable.Decode(meta.UploadID(id), v)
		}
		if err != nil {
			u.quarantine.Note(meta.Damage{Kind: meta.DamageNote, State: meta.DamageOpen, File: fsys.DirIndex,
				Reason: fmt.Sprintf(
					"the record of an upload cannot be read: %v", err)})
			return nil
		}
		p := append(slices.Clone(rec.ID[:]), resumable.Encode(rec)...)
		return u.makeNote(u.uploadPath(rec.ID)+uploadSuffix, noteUpload, p, nil)
	})
}
