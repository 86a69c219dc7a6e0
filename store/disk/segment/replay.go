package segment

import (
	"errors"
	"io/fs"
	"math"

	"allium/store/disk/segment/codec"

	"allium/protocols/b3"
	"allium/store/disk/fsys"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// replay enters records in the index in the order of the log; a later record overrides an
// earlier one. It also keeps what the header says of a record whose body is damaged. Such
// an object is marked corrupt, to be fetched again, and such a pin stays under
// damagedLabel.
type replay struct {
	s        *Log
	batch    *tables.Batch
	damaged  []damagedBody
	unlisted int              // damaged bodies beyond maxDamagedBodies
	listed   map[uint64]int64 // the segments of the last list that was read, less those retired since
	retired  map[uint64]bool  // segments that a record read here retired
}

// damagedBody is a record whose body is damaged.
type damagedBody struct {
	kind   codec.Kind
	root   b3.Root
	at     tables.Position
	length int
	mended bool
	old    meta.Entry // what the index had before; its size is -1 for nothing
}

const (
	maxReplayBatch   = 256 << 10 // size in bytes at which a batch of entries is applied to the index
	maxDamagedBodies = 4096
)

// damagedLabel is the label of a pin whose own label cannot be read.
const damagedLabel = "damaged"

// enter applies a record whose body is at that position.
func (r *replay) enter(rec codec.Record, body []byte, at tables.Position) error {
	if r.batch == nil {
		r.batch = r.s.index.NewReadingBatch()
	}
	if err := r.apply(rec, body, at); err != nil {
		return err
	}
	if r.batch.Size() < maxReplayBatch {
		return nil
	}
	return r.flush()
}

// flush applies the collected changes to the index, without sync.
func (r *replay) flush() error {
	b := r.batch
	if b == nil {
		return nil
	}
	r.batch = nil
	return b.Apply(false)
}

// apply adds the effect of one record to the batch.
func (r *replay) apply(rec codec.Record, body []byte, at tables.Position) error {
	if rec.Kind != codec.KindObject && rec.Kind != codec.KindTombstone && !meta.Checksummed(body) {
		whole, ok := codec.MendBody(body)
		r.noteDamaged(rec, at, ok)
		if ok {
			body = whole
		}
	}
	switch rec.Kind {
	case codec.KindObject:
		e := meta.Entry{
			Root: rec.Root, Size: int64(rec.Length), Seg: at.Seg, Off: at.Off, Added: rec.Added,
			Corrupt: b3.Sum(body) != rec.Root,
		}
		if e.Corrupt {
			r.noteDamaged(rec, at, false)
			if err := r.noteOldEntry(rec.Root); err != nil {
				return err
			}
		}
		return r.setEntry(e)
	case codec.KindFile:
		e, ok := rec.File(body)
		if !ok {
			if e, ok = r.fileFromDisk(rec); !ok {
				return nil
			}
		}
		e.Seg = at.Seg
		return r.setEntry(e)
	case codec.KindTombstone:
		e, ok, err := r.batch.Get(rec.Root)
		if err != nil {
			return err
		}
		if !ok { // its record was compacted away, but its files may exist
			return r.s.addRemoval(r.batch, rec.Root)
		}
		return r.s.dropEntry(r.batch, e)
	case codec.KindPin:
		p, ok := rec.Pin(body)
		if !ok {
			p = meta.Pin{
				Root: rec.Root, Label: damagedLabel, Recursive: true, Created: r.s.damage.Now().UTC(),
			}
		}
		return r.batch.SetPin(p, at.Seg)
	case codec.KindUnpin:
		if label, ok := rec.Unpin(body); ok {
			return r.batch.DropPin(rec.Root, label)
		}
	case codec.KindSegments:
		if ends, ok := rec.Segments(body); ok {
			r.listed = ends
		}
	case codec.KindRetired:
		if num, ok := rec.Retired(body); ok {
			r.noteRetired(num)
		}
	}
	return nil
}

// noteRetired notes that segment num left the log.
func (r *replay) noteRetired(num uint64) {
	if r.retired == nil {
		r.retired = map[uint64]bool{}
	}
	r.retired[num] = true
	delete(r.listed, num)
}

// setEntry enters e. A damaged copy does not replace an undamaged one.
func (r *replay) setEntry(e meta.Entry) error {
	if e.Corrupt {
		old, ok, err := r.batch.Get(e.Root)
		if err != nil || ok && !old.Corrupt {
			return err
		}
	}
	return r.batch.SetEntry(e)
}

// fileFromDisk returns the entry of a large object whose record is damaged, with the size
// of its file. ok is false when there is no such file.
func (r *replay) fileFromDisk(rec codec.Record) (e meta.Entry, ok bool) {
	info, err := r.s.fs.Stat(r.s.largePath(rec.Root))
	if err != nil || meta.Small(info.Size()) || info.Size() > b3.MaxSize {
		return meta.Entry{}, false
	}
	return meta.Entry{Root: rec.Root, Size: info.Size(), Added: rec.Added}, true
}

// noteDamaged remembers a damaged body until reportDamaged knows whether it is needed.
func (r *replay) noteDamaged(rec codec.Record, at tables.Position, mended bool) {
	if len(r.damaged) == maxDamagedBodies {
		r.unlisted++
		return
	}
	r.damaged = append(r.damaged, damagedBody{
		kind: rec.Kind, root: rec.Root, at: at, length: rec.Length, mended: mended,
	})
}

// noteOldEntry stores the index's entry of root with the damaged body noted last.
func (r *replay) noteOldEntry(root b3.Root) error {
	if r.unlisted > 0 {
		return nil
	}
	b := &r.damaged[len(r.damaged)-1]
	old, ok, err := r.batch.Get(root)
	if b.old = old; !ok {
		b.old.Size = -1
	}
	return err
}

// undo reverts the effect that a damaged body of the torn batch had on the index.
func (r *replay) undo(b damagedBody) error {
	batch := r.s.index.NewBatch()
	var err error
	switch b.kind {
	case codec.KindPin:
		r.s.repairs = append(r.s.repairs, &change{
			kind: moveUnpin, pin: meta.Pin{Root: b.root, Label: damagedLabel}, segment: math.MaxUint64,
		})
		err = batch.DropPin(b.root, damagedLabel)
	case codec.KindObject:
		if b.old.Size < 0 {
			r.s.repairs = append(r.s.repairs, &change{
				kind: moveTombstone, entry: meta.Entry{Root: b.root}, segment: math.MaxUint64,
			})
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

// reportDamaged reports the damaged bodies that the index, which is complete now, still
// needs. It undoes those in the torn batch, which inTornBatch recognizes.
func (r *replay) reportDamaged(inTornBatch func(tables.Position) bool) error {
	for _, b := range r.damaged {
		if !b.mended && inTornBatch(b.at) {
			if err := r.undo(b); err != nil {
				return err
			}
			continue
		}
		d := meta.Damage{
			Kind: meta.DamageBody, State: meta.DamageOpen, File: r.s.Name(b.at.Seg),
			Offset: b.at.Off, Length: int64(b.length),
		}
		if b.mended {
			d.State, d.Reason = meta.DamageMended, "one byte of a record was wrong; it was repaired"
			r.s.damage.Add(d)
			continue
		}
		if b.kind != codec.KindSegments && b.kind != codec.KindRetired {
			d.Roots = []b3.Root{b.root}
		}
		switch b.kind {
		case codec.KindObject, codec.KindFile:
			e, ok, err := r.s.index.Get(b.root)
			if err != nil {
				return err
			}
			if ok && !e.Corrupt && (e.Seg != b.at.Seg || b.kind == codec.KindObject) {
				continue // the index has another copy
			}
			if !ok && b.kind == codec.KindObject {
				continue // the object was removed later
			}
			d.Reason = "the bytes of an object are damaged; it is not served until it is stored again"
			if b.kind == codec.KindFile {
				if ok {
					d.State = meta.DamageMended
					d.Reason = "the record of a large object is damaged; its size was taken from its file"
				} else if _, err := r.s.fs.Stat(r.s.largePath(b.root)); errors.Is(err, fs.ErrNotExist) {
					d.Reason = "the record of a large object is damaged, and its file is missing"
				}
			}
		case codec.KindPin:
			d.Reason = "the label of a pin is damaged; it now pins the object recursively as " + damagedLabel
		case codec.KindUnpin:
			d.Reason = "the label of a dropped pin is damaged; the pin may be back"
		default:
			d.State, d.Reason = meta.DamageMended, "a list of segments is damaged; the next one replaces it"
		}
		r.s.damage.Add(d)
	}
	if r.unlisted > 0 {
		r.s.damage.Add(meta.Damage{
			Kind: meta.DamageBody, State: meta.DamageOpen, File: fsys.DirSegments, Left: int64(r.unlisted),
			Reason: "more records are damaged than can be listed",
		})
	}
	return nil
}
