package segment

import (
	"errors"
	"io/fs"
	"math"

	"allium/store/segment/record"

	"allium/protocols/b3"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
)

// replay enters records in the index, in the order of the log: what a later one
// says counts. A record whose body is damaged keeps what its header says: an
// object is marked, to be fetched again; a pin stays, under another label.
type replay struct {
	s       *Log
	batch   *index.Batch
	bad     []badBody
	more    int              // bad ones beyond maxBadBodies
	listed  map[uint64]int64 // the segments that the last list and what follows it tell
	retired map[uint64]bool  // of what was read
}

// badBody is a damaged body.
type badBody struct {
	kind   record.Kind
	root   b3.Root
	at     index.Position
	length int
	mended bool
	old    meta.Entry // what the index had before, of size -1 for nothing
}

const (
	maxReplayBatch = 256 << 10 // bytes at which entries that were found go to the index
	maxBadBodies   = 4096
)

// damagedLabel is the label of a pin whose own cannot be read.
const damagedLabel = "damaged"

// enter enters what a record says, whose body is at that position.
func (r *replay) enter(rec record.Record, body []byte, at index.Position) error {
	if r.batch == nil {
		r.batch = r.s.index.NewReadingBatch()
	}
	if err := r.record(rec, body, at); err != nil {
		return err
	}
	if r.batch.Size() < maxReplayBatch {
		return nil
	}
	return r.flush()
}

// flush puts what was entered into the index.
func (r *replay) flush() error {
	b := r.batch
	if b == nil {
		return nil
	}
	r.batch = nil
	return b.Apply(false)
}

func (r *replay) record(rec record.Record, body []byte, at index.Position) error {
	if rec.Kind != record.KindObject && rec.Kind != record.KindTombstone && !meta.Checksummed(body) {
		whole, ok := record.MendBody(body)
		r.note(rec, at, ok)
		if ok {
			body = whole
		}
	}
	switch rec.Kind {
	case record.KindObject:
		e := meta.Entry{Root: rec.Root, Size: int64(rec.Length), Seg: at.Seg, Off: at.Off, Added: rec.Added}
		if e.Corrupt = b3.Sum(body) != rec.Root; e.Corrupt {
			r.note(rec, at, false)
			if err := r.noteOld(rec.Root); err != nil {
				return err
			}
		}
		return r.entry(e)
	case record.KindFile:
		e, ok := rec.File(body)
		if !ok {
			if e, ok = r.fileFromDisk(rec); !ok {
				return nil
			}
		}
		e.Seg = at.Seg
		return r.entry(e)
	case record.KindTombstone:
		e, ok, err := r.batch.Get(rec.Root)
		if err != nil {
			return err
		}
		if !ok { // of an object whose record was compacted away
			return r.s.noteGone(r.batch, rec.Root)
		}
		return r.s.dropEntry(r.batch, e)
	case record.KindPin:
		p, ok := rec.Pin(body)
		if !ok {
			p = meta.Pin{Root: rec.Root, Label: damagedLabel, Recursive: true, Created: r.s.damage.Now().UTC()}
		}
		return r.batch.SetPin(p, at.Seg)
	case record.KindUnpin:
		if label, ok := rec.Unpin(body); ok {
			return r.batch.DropPin(rec.Root, label)
		}
	case record.KindSegments:
		if ends, ok := rec.Segments(body); ok {
			r.listed = ends
		}
	case record.KindRetired:
		if num, ok := rec.Retired(body); ok {
			r.retire(num)
		}
	}
	return nil
}

func (r *replay) retire(num uint64) {
	if r.retired == nil {
		r.retired = map[uint64]bool{}
	}
	r.retired[num] = true
	delete(r.listed, num)
}

// entry enters e. A damaged copy does not replace a whole one.
func (r *replay) entry(e meta.Entry) error {
	if e.Corrupt {
		old, ok, err := r.batch.Get(e.Root)
		if err != nil || ok && !old.Corrupt {
			return err
		}
	}
	return r.batch.SetEntry(e)
}

// fileFromDisk tells the size of a large object, whose record is damaged, from
// its file.
func (r *replay) fileFromDisk(rec record.Record) (meta.Entry, bool) {
	info, err := r.s.fs.Stat(r.s.largePath(rec.Root))
	if err != nil || meta.Small(info.Size()) || info.Size() > b3.MaxSize {
		return meta.Entry{}, false
	}
	return meta.Entry{Root: rec.Root, Size: info.Size(), Added: rec.Added}, true
}

// note remembers a damaged body until it is known whether somebody needs it.
func (r *replay) note(rec record.Record, at index.Position, mended bool) {
	if len(r.bad) == maxBadBodies {
		r.more++
		return
	}
	r.bad = append(r.bad, badBody{kind: rec.Kind, root: rec.Root, at: at, length: rec.Length, mended: mended})
}

// noteOld remembers what the index has of root, for the body noted last.
func (r *replay) noteOld(root b3.Root) error {
	if r.more > 0 {
		return nil
	}
	b := &r.bad[len(r.bad)-1]
	old, ok, err := r.batch.Get(root)
	if b.old = old; !ok {
		b.old.Size = -1
	}
	return err
}

// undo takes back what a damaged body, which nobody was told of, left in the
// index.
func (r *replay) undo(b badBody) error {
	batch := r.s.index.NewBatch()
	var err error
	switch b.kind {
	case record.KindPin:
		r.s.undone = append(r.s.undone, &change{kind: moveUnpin, pin: meta.Pin{Root: b.root, Label: damagedLabel}, from: math.MaxUint64})
		err = batch.DropPin(b.root, damagedLabel)
	case record.KindObject:
		if b.old.Size < 0 {
			r.s.undone = append(r.s.undone, &change{kind: moveTombstone, e: meta.Entry{Root: b.root}, from: math.MaxUint64})
		}
		e, ok, e2 := r.s.index.Get(b.root)
		switch {
		case e2 != nil || !ok || !e.Corrupt || e.Seg != b.at.Seg || e.Off != b.at.Off:
			err = e2
		case b.old.Size < 0:
			err = r.s.dropEntry(batch, e)
		default:
			err = batch.ReplaceEntry(b.old)
		}
	}
	if err != nil {
		return err
	}
	return batch.Apply(false)
}

// judge notes the damaged bodies that the index, which is complete, needs. torn
// says whether a place is in what a crash cut.
func (r *replay) judge(torn func(index.Position) bool) error {
	for _, b := range r.bad {
		if !b.mended && torn(b.at) {
			if err := r.undo(b); err != nil {
				return err
			}
			continue
		}
		d := meta.Damage{Kind: meta.DamageBody, State: meta.DamageOpen, File: r.s.Name(b.at.Seg), Offset: b.at.Off, Length: int64(b.length)}
		if b.mended {
			d.State, d.Reason = meta.DamageMended, "one byte of a record was wrong; it could be told"
			r.s.damage.Add(d)
			continue
		}
		if b.kind != record.KindSegments && b.kind != record.KindRetired {
			d.Roots = []b3.Root{b.root}
		}
		switch b.kind {
		case record.KindObject, record.KindFile:
			e, ok, err := r.s.index.Get(b.root)
			if err != nil {
				return err
			}
			if ok && !e.Corrupt && (e.Seg != b.at.Seg || b.kind == record.KindObject) {
				continue // there is another copy
			}
			if !ok && b.kind == record.KindObject {
				continue // it was removed later
			}
			d.Reason = "the bytes of an object are damaged; it is not served until it is back"
			if b.kind == record.KindFile {
				if ok {
					d.State, d.Reason = meta.DamageMended, "the record of a large object is damaged; its size is that of its file"
				} else if _, err := r.s.fs.Stat(r.s.largePath(b.root)); errors.Is(err, fs.ErrNotExist) {
					d.Reason = "the record of a large object is damaged, and its file is missing"
				}
			}
		case record.KindPin:
			d.Reason = "the label of a pin is damaged; the object is kept recursively under the label " + damagedLabel
		case record.KindUnpin:
			d.Reason = "the label of a pin that was removed is damaged; the pin may be back"
		default:
			d.State, d.Reason = meta.DamageMended, "a list of segments is damaged; the next one counts"
		}
		r.s.damage.Add(d)
	}
	if r.more > 0 {
		r.s.damage.Add(meta.Damage{Kind: meta.DamageBody, State: meta.DamageOpen, File: fsys.DirSegments, Left: int64(r.more), Reason: "more records are damaged than are listed"})
	}
	return nil
}
