package index

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Batch is changes of the index that are made together, by apply, or not at all.
// It belongs to one goroutine.
type Batch struct {
	x *Index
	b *pebble.Batch
	r pebble.Reader // the index, with b where the batch sees its own changes
}

// NewBatch returns an empty batch. Its reads see the index as it is.
func (x *Index) NewBatch() *Batch { return &Batch{x: x, b: x.db.NewBatch(), r: x.db} }

// NewReadingBatch returns an empty batch whose reads see its own changes as well.
func (x *Index) NewReadingBatch() *Batch {
	b := x.db.NewIndexedBatch()
	return &Batch{x: x, b: b, r: b}
}

// Apply writes b, which it closes; with sync it is durable, and so is
// everything that was applied before.
func (b *Batch) Apply(sync bool) error { return b.x.apply(b.b, sync) }

// Close gives up a batch that is not applied.
func (b *Batch) Close() { _ = b.b.Close() } // of memory

// Size is the length of the changes in bytes.
func (b *Batch) Size() int { return b.b.Len() }

// Get returns the entry of root.
func (b *Batch) Get(root b3.Root) (meta.Entry, bool, error) { return getFrom(b.r, root) }

// Pin returns a pin and the segment of its record.
func (b *Batch) Pin(root b3.Root, label string) (p meta.Pin, seg uint64, ok bool, err error) {
	key := pinKey(root, label)
	v, done, ok, err := readFrom(b.r, key)
	if !ok {
		return meta.Pin{}, 0, false, err
	}
	p, seg, err = decodePin(key, v)
	_ = done.Close() // of memory
	return p, seg, err == nil, err
}

// GoneNumber returns the number of a removal whose files may be there.
func (b *Batch) GoneNumber(root b3.Root) (n uint64, ok bool, err error) {
	return goneFrom(b.r, root)
}

// SetEntry enters an object. Of a large one nobody is to unlink the files, or to
// delete the bytes in the bucket, any more.
func (b *Batch) SetEntry(e meta.Entry) error {
	var err error
	if !meta.Small(e.Size) {
		err = errors.Join(b.b.Delete(rootKey(keyRemoved, e.Root), nil), b.DropGone(e.Root))
	}
	return errors.Join(err, b.ReplaceEntry(e))
}

// ReplaceEntry enters an object where one of that address is.
func (b *Batch) ReplaceEntry(e meta.Entry) error {
	var key [1 + b3.Size]byte
	key[0] = keyObject
	copy(key[1:], e.Root[:])
	var value [maxEntrySize]byte
	return b.b.Set(key[:], appendEntry(value[:0], e), nil)
}

// DropEntry removes an object, and when it was used last.
func (b *Batch) DropEntry(root b3.Root) error {
	return errors.Join(b.b.Delete(rootKey(keyObject, root), nil), b.b.Delete(rootKey(keyUse, root), nil))
}

// SetUse notes when an object was used last.
func (b *Batch) SetUse(root b3.Root, at meta.Second) error {
	return b.b.Set(rootKey(keyUse, root), binary.AppendUvarint(nil, uint64(at)), nil)
}

// SetPin enters a pin, whose record is in segment seg.
func (b *Batch) SetPin(p meta.Pin, seg uint64) error {
	return b.b.Set(pinKey(p.Root, p.Label), pinValue(p, seg), nil)
}

// DropPin removes a pin.
func (b *Batch) DropPin(root b3.Root, label string) error {
	return b.b.Delete(pinKey(root, label), nil)
}

// SetGone notes that the files of a large object are to be unlinked. Each
// removal has a number of its own: one that is carried out does not answer for
// the next.
func (b *Batch) SetGone(root b3.Root, number uint64) error {
	return b.b.Set(rootKey(keyGone, root), binary.LittleEndian.AppendUint64(nil, number), nil)
}

// DropGone notes that nothing of an object is to be unlinked.
func (b *Batch) DropGone(root b3.Root) error { return b.b.Delete(rootKey(keyGone, root), nil) }

// SetRemoved notes that a large object is to be deleted in the bucket.
func (b *Batch) SetRemoved(root b3.Root) error {
	return b.b.Set(rootKey(keyRemoved, root), nil, nil)
}

// SetWatermark notes how far the log is in the index: where it ends there, and the
// number of the last batch.
func (b *Batch) SetWatermark(end Position, batch uint64) error {
	return b.b.Set(keyWatermark, encodeWatermark(end, batch), nil)
}

// SetSegments notes the segments that the log consists of, and their ends.
func (b *Batch) SetSegments(ends map[uint64]int64) error {
	return b.b.Set(keySegments, EncodeSegments(ends), nil)
}
