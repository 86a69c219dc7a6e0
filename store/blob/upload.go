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
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/upload"
)

// The bytes of an upload are part/<id>, its outboard
// <id>.ob, both from the start on, and what is noted of it as <id>.up, which
// is there before them. Only of the bytes it is known what is durable: the
// outboard is made anew after a restart.

const uploadSuffix = ".up"

// uploads are the objects in part/ that come in pieces.
type uploads struct {
	*notes
	log   Log
	found []upload.Record // by the start, until they are asked for

	mu   sync.Mutex
	seqs map[upload.ID]uint64 // numbers of their notes
}

func newUploads(n *notes, log Log) *uploads {
	return &uploads{notes: n, log: log, seqs: map[upload.ID]uint64{}}
}

// Uploads returns what was noted of uploads, once, when the store opens.
func (u *uploads) Uploads() ([]upload.Record, error) {
	recs := u.found
	u.found = nil
	return recs, nil
}

func (u *uploads) uploadPath(id upload.ID) string { return u.path(fsys.DirPart, id.String()) }

// OpenUpload opens the files of an upload. Data that is gone is fs.ErrNotExist.
// need is how many bytes of the outboard are.
func (u *uploads) OpenUpload(rec upload.Record, need int64) (*meta.Staging, error) {
	if rec.Offset < rec.Length {
		if err := u.space(min(rec.Length-rec.Offset, 2*b3.GroupSize)); err != nil {
			return nil, err
		}
	}
	name := u.uploadPath(rec.ID)
	at := &place{unnamed: rec.Offset == 0, data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Owned: true, Own: at}
	data, err := u.openGrowing(at.data, rec.Offset)
	if errors.Is(err, fs.ErrNotExist) {
		u.aside.Note(meta.Damage{
			Kind: meta.DamageFile, State: meta.DamageOpen, File: u.aside.Below(name), Length: rec.Offset, Reason: lostUpload(rec),
		})
	}
	if err != nil {
		return nil, err
	}
	outboard, err := u.openGrowing(at.outboard, need)
	if errors.Is(err, fs.ErrNotExist) {
		err = status.Errorf(status.Internal, "the outboard of an upload is gone; append again")
	}
	if err != nil {
		_ = data.Close() // nothing was written to it
		return nil, err
	}
	st.Pair = meta.Pair{Data: data, Outboard: outboard}
	return st, nil
}

// openGrowing opens a file that must have need bytes, or else makes it anew.
func (u *uploads) openGrowing(name string, need int64) (*stagedFile, error) {
	if need == 0 {
		return u.create(name)
	}
	f, err := u.reopen(name) // which makes what is not there
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

// NoteUpload syncs the bytes, their name with the first ones, and then writes
// the note, with sync: what it says is on disk. Of one that is done the files
// go.
func (u *uploads) NoteUpload(rec upload.Record, st *meta.Staging) error {
	if err := errors.Join(u.index.Failure(), u.log.Failure()); err != nil {
		return err
	}
	if st != nil {
		if err := meta.WriteError("sync a file", st.Data.(*stagedFile).f.SyncData()); err != nil {
			return err
		}
		if at := placeOf(st); at.unnamed {
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
		u.tidy(u.uploadPath(rec.ID), u.uploadPath(rec.ID)+outboardSuffix)
	}
	return nil
}

// writeUpload writes the note of an upload, durably. Nobody else does for that
// upload.
func (u *uploads) writeUpload(rec upload.Record) error {
	u.mu.Lock()
	seq, known := u.seqs[rec.ID]
	u.mu.Unlock()
	name, p := u.uploadPath(rec.ID)+uploadSuffix, append(rec.ID[:], upload.Encode(rec)...)
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

// readUpload reads the note of an upload; ok is false when it is damaged, and
// bad is how many of its slots are.
func (u *uploads) readUpload(id upload.ID) (rec upload.Record, bad int, ok bool, err error) {
	f, err := u.fs.Open(u.uploadPath(id) + uploadSuffix)
	if err != nil {
		return rec, 0, false, meta.ReadError(err)
	}
	defer f.Close() // only read
	decode := func(p []byte) (upload.Record, error) {
		if len(p) < len(id) || upload.ID(p[:len(id)]) != id {
			return upload.Record{}, errors.New("the note is that of another upload")
		}
		return upload.Decode(id, p[len(id):])
	}
	seq, p, bad, err := readSlots(noteUpload, f, func(p []byte) bool { _, err := decode(p); return err == nil })
	if err != nil || p == nil {
		return rec, bad, false, err
	}
	u.seqs[id] = seq // nobody else is here yet
	rec, err = decode(p)
	return rec, bad, err == nil, err
}

// DropUpload removes the note of an upload, and then its files.
func (u *uploads) DropUpload(id upload.ID) error {
	if err := u.dropNote(u.uploadPath(id), uploadSuffix); err != nil {
		return err
	}
	u.mu.Lock()
	delete(u.seqs, id)
	u.mu.Unlock()
	return nil
}

// settleUpload takes over what is in part/ of an upload: bytes that a crash
// moved away on their way into obj/ are put back. One that is lost is gone for
// good: only its client has the bytes.
func (u *uploads) settleUpload(id upload.ID, x noted, old bool) error {
	name := u.uploadPath(id)
	if len(x.gone) > 0 {
		u.settleGone(name, uploadSuffix, x)
		return nil
	}
	if !x.note {
		if old {
			u.tidy(name, name+outboardSuffix)
			return nil
		}
		u.loseUpload(id, meta.Damage{Kind: meta.DamageFile, Reason: "there are bytes of an upload and no note of it; what is not whole must be sent again"})
		return nil
	}
	rec, bad, ok, err := u.readUpload(id)
	if err != nil {
		return err
	}
	if !ok {
		u.loseUpload(id, meta.Damage{Kind: meta.DamageNote, Reason: "the note of an upload cannot be read; what is not whole must be sent again"})
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
	if whole { // the files were moved, or are not needed
		u.tidy(name, name+outboardSuffix)
	} else {
		here, err := u.reclaimUpload(rec)
		if err != nil {
			return err
		}
		if !here {
			u.loseUpload(id, meta.Damage{Kind: meta.DamageFile, Length: rec.Offset, Reason: lostUpload(rec)})
			return nil
		}
	}
	if bad > 0 {
		u.notice(name+uploadSuffix, meta.Damage{Kind: meta.DamageNote, Reason: fmt.Sprintf(
			"one of the two copies of the note of an upload was damaged; the other one says that %d bytes are here", rec.Offset)})
		if err := u.makeNote(name+uploadSuffix, noteUpload, append(slices.Clone(id[:]), upload.Encode(rec)...), nil); err != nil {
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

func lostUpload(rec upload.Record) string {
	return fmt.Sprintf("of an upload %d bytes were acknowledged, and the file is missing or shorter; it must be sent again", rec.Offset)
}

// loseUpload puts what is left of an upload out of the way.
func (u *uploads) loseUpload(id upload.ID, why meta.Damage) {
	delete(u.seqs, id) // nobody else is here yet
	why.State = meta.DamageOpen
	name := u.uploadPath(id)
	u.setAside(why, name+uploadSuffix, name, name+outboardSuffix)
}

// reclaimUpload reports whether the bytes of an upload are where they should be,
// or could be put back there. Its outboard is not needed.
func (u *uploads) reclaimUpload(rec upload.Record) (here bool, err error) {
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
		return false, meta.WriteError("put back a file", err)
	}
	if rec.Root.IsZero() {
		return info.Size() >= rec.Offset, nil
	}
	if _, err := u.fs.Stat(u.objectPath(rec.Root)); errors.Is(err, fs.ErrNotExist) {
		u.tidy(u.objectPath(rec.Root) + outboardSuffix)
	}
	return info.Size() >= rec.Offset, nil
}
