package segment

import (
	"errors"
	"io/fs"
	"math"

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
	kind   recordKind
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
func (r *replay) enter(rec record, body []byte, at index.Position) error {
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

func (r *replay) record(rec record, body []byte, at index.Position) error {
	if rec.kind != kindObject && rec.kind != kindTombstone && !meta.Checksummed(body) {
		whole, ok := mendBody(body)
		r.note(rec, at, ok)
		if ok {
			body = whole
		}
	}
	switch rec.kind {
	case kindObject:
		e := meta.Entry{Root: rec.root, Size: int64(rec.length), Seg: at.Seg, Off: at.Off, Added: rec.added}
		if e.Corrupt = b3.Sum(body) != rec.root; e.Corrupt {
			r.note(rec, at, false)
			if err := r.noteOld(rec.root); err != nil {
				return err
			}
		}
		return r.entry(e)
	case kindFile:
		e, ok := rec.file(body)
		if !ok {
			if e, ok = r.fileFromDisk(rec); !ok {
				return nil
			}
		}
		e.Seg = at.Seg
		return r.entry(e)
	case kindTombstone:
		e, ok, err := r.batch.Get(rec.root)
		if err != nil {
			return err
		}
		if !ok { // of an object whose record was compacted away
			return r.s.noteGone(r.batch, rec.root)
		}
		return r.s.dropEntry(r.batch, e)
	case kindPin:
		p, ok := rec.pin(body)
		if !ok {
			p = meta.Pin{Root: rec.root, Label: damagedLabel, Recursive: true, Created: r.s.damage.Now().UTC()}
		}
		return r.batch.SetPin(p, at.Seg)
	case kindUnpin:
		if label, ok := rec.unpin(body); ok {
			return r.batch.DropPin(rec.root, label)
		}
	case kindSegments:
		if ends, ok := rec.segments(body); ok {
			r.listed = ends
		}
	case kindRetired:
		if num, ok := rec.retired(body); ok {
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
func (r *replay) fileFromDisk(rec record) (meta.Entry, bool) {
	info, err := r.s.fs.Stat(r.s.largePath(rec.root))
	if err != nil || meta.Small(info.Size()) || info.Size() > b3.MaxSize {
		return meta.Entry{}, false
	}
	return meta.Entry{Root: rec.root, Size: info.Size(), Added: rec.added}, true
}

// note remembers a damaged body until it is known whether somebody needs it.
func (r *replay) note(rec record, at index.Position, mended bool) {
	if len(r.bad) == maxBadBodies {
		r.more++
		return
	}
	r.bad = append(r.bad, badBody{kind: rec.kind, root: rec.root, at: at, length: rec.length, mended: mended})
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
	case kindPin:
		r.s.undone = append(r.s.undone, &change{kind: moveUnpin, pin: meta.Pin{Root: b.root, Label: damagedLabel}, from: math.MaxUint64})
		err = batch.DropPin(b.root, damagedLabel)
	case kindObject:
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
		if b.kind != kindSegments && b.kind != kindRetired {
			d.Roots = []b3.Root{b.root}
		}
		switch b.kind {
		case kindObject, kindFile:
			e, ok, err := r.s.index.Get(b.root)
			if err != nil {
				return err
			}
			if ok && !e.Corrupt && (e.Seg != b.at.Seg || b.kind == kindObject) {
				continue // there is another copy
			}
			if !ok && b.kind == kindObject {
				continue // it was removed later
			}
			d.Reason = "the bytes of an object are damaged; it is not served until it is back"
			if b.kind == kindFile {
				if ok {
					d.State, d.Reason = meta.DamageMended, "the record of a large object is damaged; its size is that of its file"
				} else if _, err := r.s.fs.Stat(r.s.largePath(b.root)); errors.Is(err, fs.ErrNotExist) {
					d.Reason = "the record of a large object is damaged, and its file is missing"
				}
			}
		case kindPin:
			d.Reason = "the label of a pin is damaged; the object is kept recursively under the label " + damagedLabel
		case kindUnpin:
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

// largePath is the file of a large object's bytes.
func (s *Log) largePath(root b3.Root) string {
	name := root.Hex()
	return s.fs.PathJoin(s.fs.PathDir(s.dir), fsys.DirObjects, name[:2], name)
}
