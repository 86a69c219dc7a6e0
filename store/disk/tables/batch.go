package tables

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Batch collects changes of the index that take effect together, in Apply. It is not safe
// for concurrent use. The caller calls Apply or Close.
type Batch struct {
	view    // the index, overlaid with changes in a reading batch
	db      *database
	changes *pebble.Batch
}

// NewBatch returns an empty batch. Its reads see the index without the batch's changes.
func (x *Index) NewBatch() *Batch { return &Batch{x.view, x.database, x.db.NewBatch()} }

// NewReadingBatch returns an empty batch whose reads see the batch's own changes.
func (x *Index) NewReadingBatch() *Batch {
	b := x.db.NewIndexedBatch()
	return &Batch{view{b, x.filter}, x.database, b}
}

// Apply writes and closes the batch. With sync, it and everything applied before are
// durable.
func (b *Batch) Apply(sync bool) error { return b.db.apply(b.changes, sync) }

// Close discards a batch that is not applied.
func (b *Batch) Close() { _ = b.changes.Close() } // frees memory

// Size returns the size of the changes in bytes.
func (b *Batch) Size() int { return b.changes.Len() }

// SetEntry enters an object. For a large one it drops the notes that its files, or its
// bytes in the bucket, are to be deleted.
func (b *Batch) SetEntry(e meta.Entry) error {
	var err error
	if !meta.Small(e.Size) {
		err = errors.Join(b.changes.Delete(rootKey(keyBucketRemoval, e.Root), nil), b.DropFileRemoval(e.Root))
	}
	return errors.Join(err, b.ReplaceEntry(e))
}

// ReplaceEntry enters an object in place of an entry with the same address.
func (b *Batch) ReplaceEntry(e meta.Entry) error {
	b.filter.add(e.Root)
	var key [1 + b3.Size]byte
	key[0] = keyObject
	copy(key[1:], e.Root[:])
	var value [maxEntrySize]byte
	return b.changes.Set(key[:], appendEntry(value[:0], e), nil)
}

// DropEntry deletes an object and its last use.
func (b *Batch) DropEntry(root b3.Root) error {
	return errors.Join(b.changes.Delete(rootKey(keyObject, root), nil), b.changes.Delete(rootKey(keyUse, root), nil))
}

// SetUse sets when an object was last used.
func (b *Batch) SetUse(root b3.Root, at meta.Second) error {
	return b.changes.Set(rootKey(keyUse, root), binary.AppendUvarint(nil, uint64(at)), nil)
}

// SetPin enters a pin, whose record is in segment seg.
func (b *Batch) SetPin(p meta.Pin, seg uint64) error {
	return b.changes.Set(pinKey(p.Root, p.Label), pinValue(p, seg), nil)
}

// DropPin deletes a pin.
func (b *Batch) DropPin(root b3.Root, label string) error {
	return b.changes.Delete(pinKey(root, label), nil)
}

// SetFileRemoval notes that the files of a large object are to be deleted. Each removal has
// its own number, so the end of one does not clear the note of a later one.
func (b *Batch) SetFileRemoval(root b3.Root, number uint64) error {
	return b.changes.Set(rootKey(keyFileRemoval, root), binary.LittleEndian.AppendUint64(nil, number), nil)
}

// DropFileRemoval drops the note that an object's files are to be deleted.
func (b *Batch) DropFileRemoval(root b3.Root) error {
	return b.changes.Delete(rootKey(keyFileRemoval, root), nil)
}

// SetBucketRemoval notes that a large object is to be deleted from the bucket.
func (b *Batch) SetBucketRemoval(root b3.Root) error {
	return b.changes.Set(rootKey(keyBucketRemoval, root), nil, nil)
}

// SetWatermark sets up to where the index has the log, and the number of the last batch
// there.
func (b *Batch) SetWatermark(end Position, batch uint64) error {
	return b.changes.Set(keyWatermark, encodeWatermark(end, batch), nil)
}

// SetSegments sets the segments of the log and their ends.
func (b *Batch) SetSegments(ends map[uint64]int64) error {
	return b.changes.Set(keySegments, EncodeSegments(ends), nil)
}
