package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/arriving/resumable"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// An upload has the note part/<id>.up, which is written first, its bytes in part/<id>,
// and its outboard in part/<id>.ob. The note says how many of the bytes are durable.
// The outboard is computed again after a restart.

const uploadSuffix = ".up"

// uploads are the uploads in part/: objects that arrive in pieces.
type uploads struct {
	*notes
	log   Log
	found []meta.Upload // found at the start; Uploads returns them once

	mu   sync.Mutex               // lock: leaf
	seqs map[meta.UploadID]uint64 // numbers of the newer slots of the notes
}

func newUploads(n *notes, log Log) *uploads {
	return &uploads{notes: n, log: log, seqs: map[meta.UploadID]uint64{}}
}

// Uploads returns the records of the uploads that the start found. It is called once.
func (u *uploads) Uploads() ([]meta.Upload, error) {
	recs := u.found
	u.found = nil
	return recs, nil
}

func (u *uploads) uploadPath(id meta.UploadID) string { return u.path(fsys.DirPart, id.String()) }

// OpenUpload opens the files of an upload. need is how many bytes the outboard must
// have. It returns fs.ErrNotExist if the data is missing or short, which it adds to
// the list of damage. It returns no_space if there is no space for more data.
func (u *uploads) OpenUpload(rec meta.Upload, need int64) (*meta.Staging, error) {
	if rec.Offset < rec.Length {
		if err := u.space(min(rec.Length-rec.Offset, 2*b3.GroupSize)); err != nil {
			return nil, err
		}
	}
	name := u.uploadPath(rec.ID)
	at := &stagedPaths{unnamed: rec.Offset == 0, data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Owned: true, Own: at}
	data, err := u.openGrowing(at.data, rec.Offset)
	if errors.Is(err, fs.ErrNotExist) {
		u.quarantine.Note(meta.Damage{
			Kind: meta.DamageFile, State: meta.DamageOpen, File: u.quarantine.Below(name), Length: rec.Offset,
			Reason: lostUpload(rec),
		})
	}
	if err != nil {
		return nil, err
	}
	outboard, err := u.openGrowing(at.outboard, need)
	if errors.Is(err, fs.ErrNotExist) {
		err = status.Errorf(status.Internal, "the outboard of an upload is missing; append again")
	}
	if err != nil {
		_ = data.Close() // nothing was written to it
		return nil, err
	}
	st.Pair = meta.Pair{Data: data, Outboard: outboard}
	return st, nil
}

// openGrowing opens a file that must have at least need bytes. If need is 0, it
// creates an empty file.
func (u *uploads) openGrowing(name string, need int64) (*stagedFile, error) {
	if need == 0 {
		return u.create(name)
	}
	f, err := u.reopen(name) // creates a missing file
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

// NoteUpload syncs the bytes of an upload, and the first time their file name. Then it
// writes the note durably, so that everything in the note is on disk. If rec is done,
// it removes the files and keeps the note.
func (u *uploads) NoteUpload(rec meta.Upload, st *meta.Staging) error {
	if err := errors.Join(u.index.Failure(), u.log.Failure()); err != nil {
		return err
	}
	if st != nil {
		if err := meta.WriteError("sync a file", st.Data.(*stagedFile).sync()); err != nil {
			return err
		}
		if at := pathsOf(st); at.unnamed {
			if err := u.syncPart(); err != nil {
				return err
			}
			at.unnamed = false
		}
	}
	if err := u.writeUpload(rec); err != nil {
		return err
	}
	if rec.Done {
		u.unlinkOrLog(u.uploadPath(rec.ID), u.uploadPath(rec.ID)+outboardSuffix)
	}
	return nil
}

// writeUpload writes the note of an upload, durably. It must not run twice at once for
// one upload.
func (u *uploads) writeUpload(rec meta.Upload) error {
	u.mu.Lock()
	seq, known := u.seqs[rec.ID]
	u.mu.Unlock()
	name, p := u.uploadPath(rec.ID)+uploadSuffix, append(rec.ID[:], resumable.Encode(rec)...)
	var err error
	if known {
		seq++
		err = u.changeNote(name, noteUpload, seq, p, func(vfs.File) error { return nil })
	} else {
		seq = firstNote
		if err = u.makeNote(name, noteUpload, p, nil); err == nil {
			err = u.syncPart()
		}
	}
	if err == nil {
		u.mu.Lock()
		u.seqs[rec.ID] = seq
		u.mu.Unlock()
	}
	return err
}

// readUpload reads the note of an upload. ok is false if it is damaged; bad is the
// number of damaged slots.
func (u *uploads) readUpload(id meta.UploadID) (rec meta.Upload, bad int, ok bool, err error) {
	f, err := u.fs.Open(u.uploadPath(id) + uploadSuffix)
	if err != nil {
		return rec, 0, false, meta.ReadError(err)
	}
	defer f.Close() // only read
	decode := func(p []byte) (meta.Upload, error) {
		if len(p) < len(id) || meta.UploadID(p[:len(id)]) != id {
			return meta.Upload{}, errors.New("the note is that of another upload")
		}
		return resumable.Decode(id, p[len(id):])
	}
	seq, p, bad, err := readSlots(noteUpload, f, func(p []byte) bool { _, err := decode(p); return err == nil })
	if err != nil || p == nil {
		return rec, bad, false, err
	}
	u.seqs[id] = seq // mu is not needed before Serve
	rec, err = decode(p)
	return rec, bad, err == nil, err
}

// DropUpload removes the note of an upload and its files. After a crash, the next
// start finishes the removal.
func (u *uploads) DropUpload(id meta.UploadID) error {
	if err := u.dropNote(u.uploadPath(id), uploadSuffix); err != nil {
		return err
	}
	u.mu.Lock()
	delete(u.seqs, id)
	u.mu.Unlock()
	return nil
}

// recoverUpload makes the files of an upload agree with its note. It moves bytes back
// that a crash left in obj/ without a record. The damage of a lost upload stays open,
// because only its client has the bytes.
func (u *uploads) recoverUpload(id meta.UploadID, x partFiles, old bool) error {
	name := u.uploadPath(id)
	if len(x.gone) > 0 {
		u.recoverGone(name, uploadSuffix, x)
		return nil
	}
	if !x.note {
		if old {
			u.unlinkOrLog(name, name+outboardSuffix)
			return nil
		}
		u.quarantineUpload(id, meta.Damage{
			Kind: meta.DamageFile, Reason: "an upload has bytes and no note; if it was not finished, send it again",
		})
		return nil
	}
	rec, bad, ok, err := u.readUpload(id)
	if err != nil {
		return err
	}
	if !ok {
		u.quarantineUpload(id, meta.Damage{
			Kind:   meta.DamageNote,
			Reason: "the note of an upload cannot be read; if it was not finished, send it again",
		})
		return nil
	}
	whole := rec.Done
	if !whole && !rec.Root.IsZero() {
		e, ok, err := u.index.Get(rec.Root)
		if err != nil {
			return err
		}
		whole = ok && !e.Corrupt
	}
	if whole { // the files are in obj/, or are not needed
		u.unlinkOrLog(name, name+outboardSuffix)
	} else {
		here, err := u.restoreUpload(rec)
		if err != nil {
			return err
		}
		if !here {
			u.quarantineUpload(id, meta.Damage{Kind: meta.DamageFile, Length: rec.Offset, Reason: lostUpload(rec)})
			return nil
		}
	}
	if bad > 0 {
		u.noteDamage(name+uploadSuffix, meta.Damage{Kind: meta.DamageNote, Reason: fmt.Sprintf(
			"one of two copies of the note of an upload was damaged; the other says that %d bytes are stored",
			rec.Offset)})
		if err := u.makeNote(name+uploadSuffix, noteUpload, append(slices.Clone(id[:]), resumable.Encode(rec)...),
			nil); err != nil {
			return err
		}
		u.seqs[id] = firstNote
		if err := u.syncPart(); err != nil {
			return err
		}
	}
	u.found = append(u.found, rec)
	return nil
}

func lostUpload(rec meta.Upload) string {
	return fmt.Sprintf("%d bytes of an upload were acknowledged, and its file is missing or shorter; send it again",
		rec.Offset)
}

// quarantineUpload moves the files of an upload to quarantine/. The damage is open.
func (u *uploads) quarantineUpload(id meta.UploadID, why meta.Damage) {
	delete(u.seqs, id) // mu is not needed before Serve
	why.State = meta.DamageOpen
	name := u.uploadPath(id)
	u.moveToQuarantine(why, name+uploadSuffix, name, name+outboardSuffix)
}

// restoreUpload moves the bytes of an upload back from obj/ to part/ if a crash left
// them there. It reports whether part/ has all acknowledged bytes. The outboard is not
// needed.
func (u *uploads) restoreUpload(rec meta.Upload) (here bool, err error) {
	if rec.Offset == 0 {
		return true, nil
	}
	name := u.uploadPath(rec.ID)
	info, err := u.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && !rec.Root.IsZero() {
		err = u.fs.Rename(u.objectPath(rec.Root), name)
		if err == nil {
			info, err = u.fs.Stat(name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, meta.WriteError("move back a file", err)
	}
	if rec.Root.IsZero() {
		return info.Size() >= rec.Offset, nil
	}
	if _, err := u.fs.Stat(u.objectPath(rec.Root)); errors.Is(err, fs.ErrNotExist) {
		u.unlinkOrLog(u.objectPath(rec.Root) + outboardSuffix)
	}
	return info.Size() >= rec.Offset, nil
}
