package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/upload"
)

// The embedded backend keeps the bytes of an upload as part/<id>, its outboard
// as <id>.ob, both from the start on, and what is noted of it as <id>.up, which
// is there before them. Only of the bytes it is known what is durable: the
// outboard is made anew after a restart.

const uploadSuffix = ".up"

// Uploads implements the backend of a store.
func (d *Backend) Uploads() ([]upload.Record, error) {
	recs := d.blobs.found
	d.blobs.found = nil // asked once, when the store opens
	return recs, nil
}

// OpenUpload implements the backend of a store.
func (d *Backend) OpenUpload(rec upload.Record, outboard int64) (*meta.Staging, error) {
	return d.blobs.openUpload(rec, outboard)
}

// NoteUpload implements the backend of a store.
func (d *Backend) NoteUpload(rec upload.Record, st *meta.Staging) error {
	return d.blobs.noteUpload(rec, st)
}

// DropUpload implements the backend of a store.
func (d *Backend) DropUpload(id upload.ID) error { return d.blobs.dropUpload(id) }

func (b *blobs) uploadPath(id upload.ID) string { return b.path(fsys.DirPart, id.String()) }

func (b *blobs) openUpload(rec upload.Record, need int64) (*meta.Staging, error) {
	if rec.Offset < rec.Length {
		if err := b.space(min(rec.Length-rec.Offset, 2*b3.GroupSize)); err != nil {
			return nil, err
		}
	}
	name := b.uploadPath(rec.ID)
	at := &place{unnamed: rec.Offset == 0, data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Owned: true, Own: at}
	data, err := b.openGrowing(at.data, rec.Offset)
	if errors.Is(err, fs.ErrNotExist) {
		b.aside.Note(meta.Damage{
			Kind: meta.DamageFile, State: meta.DamageOpen, File: b.aside.Below(name), Length: rec.Offset, Reason: lostUpload(rec),
		})
	}
	if err != nil {
		return nil, err
	}
	outboard, err := b.openGrowing(at.outboard, need)
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

// noteUpload syncs the bytes, their name with the first ones, and then writes
// the note, with sync: what it says is on disk. Of one that is done the files
// go.
func (b *blobs) noteUpload(rec upload.Record, st *meta.Staging) error {
	if err := errors.Join(b.index.Failure(), b.log.Failure()); err != nil {
		return err
	}
	if st != nil {
		if err := meta.WriteError("sync a file", st.Data.(*stagedFile).f.SyncData()); err != nil {
			return err
		}
		if at := placeOf(st); at.unnamed {
			if err := b.syncPart(); err != nil {
				return err
			}
			at.unnamed = false
		}
	}
	if err := b.writeUpload(rec); err != nil {
		return err
	}
	if rec.Done {
		b.tidy(b.uploadPath(rec.ID), b.uploadPath(rec.ID)+outboardSuffix)
	}
	return nil
}

// writeUpload writes the note of an upload, durably. Nobody else does for that
// upload.
func (b *blobs) writeUpload(rec upload.Record) error {
	b.mu.Lock()
	seq, known := b.seqs[rec.ID]
	b.mu.Unlock()
	name, p := b.uploadPath(rec.ID)+uploadSuffix, append(rec.ID[:], upload.Encode(rec)...)
	var err error
	if known {
		seq++
		err = b.changeNote(name, noteUpload, seq, p, func(vfs.File) error { return nil })
	} else {
		seq = firstNote
		if err = b.makeNote(name, noteUpload, p, nil); err == nil {
			err = b.syncPart()
		}
	}
	if err == nil {
		b.mu.Lock()
		b.seqs[rec.ID] = seq
		b.mu.Unlock()
	}
	return err
}

// readUpload reads the note of an upload; ok is false when it is damaged, and
// bad is how many of its slots are.
func (b *blobs) readUpload(id upload.ID) (rec upload.Record, bad int, ok bool, err error) {
	f, err := b.fs.Open(b.uploadPath(id) + uploadSuffix)
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
	b.seqs[id] = seq // nobody else is here yet
	rec, err = decode(p)
	return rec, bad, err == nil, err
}

// dropUpload removes the note of an upload, and then its files.
func (b *blobs) dropUpload(id upload.ID) error {
	if err := b.dropNoted(b.uploadPath(id), uploadSuffix); err != nil {
		return err
	}
	b.mu.Lock()
	delete(b.seqs, id)
	b.mu.Unlock()
	return nil
}

// settleUpload takes over what is in part/ of an upload: bytes that a crash
// moved away on their way into obj/ are put back. One that is lost is gone for
// good: only its client has the bytes.
func (b *blobs) settleUpload(id upload.ID, x noted, old bool) error {
	name := b.uploadPath(id)
	if len(x.gone) > 0 {
		b.settleGone(name, uploadSuffix, x)
		return nil
	}
	if !x.note {
		if old {
			b.tidy(name, name+outboardSuffix)
			return nil
		}
		b.loseUpload(id, meta.Damage{Kind: meta.DamageFile, Reason: "there are bytes of an upload and no note of it; what is not whole must be sent again"})
		return nil
	}
	rec, bad, ok, err := b.readUpload(id)
	if err != nil {
		return err
	}
	if !ok {
		b.loseUpload(id, meta.Damage{Kind: meta.DamageNote, Reason: "the note of an upload cannot be read; what is not whole must be sent again"})
		return nil
	}
	whole := rec.Done
	if !whole && !rec.Root.IsZero() {
		e, ok, err := b.index.Get(rec.Root)
		if err != nil {
			return err
		}
		whole = ok && !e.Corrupt
	}
	if whole { // the files were moved, or are not needed
		b.tidy(name, name+outboardSuffix)
	} else {
		here, err := b.reclaimUpload(rec)
		if err != nil {
			return err
		}
		if !here {
			b.loseUpload(id, meta.Damage{Kind: meta.DamageFile, Length: rec.Offset, Reason: lostUpload(rec)})
			return nil
		}
	}
	if bad > 0 {
		b.notice(name+uploadSuffix, meta.Damage{Kind: meta.DamageNote, Reason: fmt.Sprintf(
			"one of the two copies of the note of an upload was damaged; the other one says that %d bytes are here", rec.Offset)})
		if err := b.makeNote(name+uploadSuffix, noteUpload, append(slices.Clone(id[:]), upload.Encode(rec)...), nil); err != nil {
			return err
		}
		b.seqs[id] = firstNote
		if err := b.syncPart(); err != nil {
			return err
		}
	}
	b.found = append(b.found, rec)
	return nil
}

func lostUpload(rec upload.Record) string {
	return fmt.Sprintf("of an upload %d bytes were acknowledged, and the file is missing or shorter; it must be sent again", rec.Offset)
}

// loseUpload puts what is left of an upload out of the way.
func (b *blobs) loseUpload(id upload.ID, why meta.Damage) {
	delete(b.seqs, id) // nobody else is here yet
	why.State = meta.DamageOpen
	name := b.uploadPath(id)
	b.setAside(why, name+uploadSuffix, name, name+outboardSuffix)
}

// reclaimUpload reports whether the bytes of an upload are where they should be,
// or could be put back there. Its outboard is not needed.
func (b *blobs) reclaimUpload(rec upload.Record) (here bool, err error) {
	if rec.Offset == 0 {
		return true, nil
	}
	name := b.uploadPath(rec.ID)
	info, err := b.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && !rec.Root.IsZero() {
		err = b.fs.Rename(b.objectPath(rec.Root), name)
		if err == nil {
			info, err = b.fs.Stat(name)
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
	if _, err := b.fs.Stat(b.objectPath(rec.Root)); errors.Is(err, fs.ErrNotExist) {
		b.tidy(b.objectPath(rec.Root) + outboardSuffix)
	}
	return info.Size() >= rec.Offset, nil
}
