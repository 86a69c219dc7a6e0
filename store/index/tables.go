package index

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Watermark returns how far the log is in the index, and the number of the last
// batch; zero when the index is new.
func (x *Index) Watermark() (end Position, batch uint64, err error) {
	v, ok, err := x.value(keyWatermark)
	if !ok {
		return Position{}, 0, err
	}
	return DecodeWatermark(v)
}

// Segments returns the segments that the log consists of, and their ends; ok is
// false when the index knows none, as before format 3.
func (x *Index) Segments() (ends map[uint64]int64, ok bool, err error) {
	v, ok, err := x.value(keySegments)
	if !ok {
		return nil, false, err
	}
	ends, err = DecodeSegments(v)
	return ends, err == nil, err
}

// PutEntry enters an object that the log may not have, with the next sync. It is
// for a rebuild, which finds such objects.
func (x *Index) PutEntry(e meta.Entry) error {
	return x.set(rootKey(keyObject, e.Root), appendEntry(nil, e), false)
}

// UsedAt returns the last use of e.
func (x *Index) UsedAt(e meta.Entry) (meta.Second, error) {
	v, done, ok, err := x.read(rootKey(keyUse, e.Root))
	if !ok {
		return e.Added, err
	}
	used, err := decodeUse(v)
	_ = done.Close() // of memory
	return max(used, e.Added), err
}

// GoneNumber returns the number of a removal whose files may be there.
func (x *Index) GoneNumber(root b3.Root) (n uint64, ok bool, err error) { return goneFrom(x.db, root) }

func goneFrom(r pebble.Reader, root b3.Root) (n uint64, ok bool, err error) {
	v, done, ok, err := readFrom(r, rootKey(keyGone, root))
	if !ok {
		return 0, false, err
	}
	defer done.Close() // of memory
	if len(v) != 8 {
		return 0, false, fmt.Errorf("the index entry of a removal %w: % x", ErrMalformed, meta.Clip(v))
	}
	return binary.LittleEndian.Uint64(v), true, nil
}

// Gone returns the first n large objects, in order of address, whose files are to
// be unlinked.
func (x *Index) Gone(n int) ([]b3.Root, error) { return x.rootsOf(keyGone, n) }

// Removed returns the first n large objects, in order of address, that are to be
// deleted in the bucket.
func (x *Index) Removed(n int) ([]b3.Root, error) { return x.rootsOf(keyRemoved, n) }

func (x *Index) rootsOf(kind byte, n int) ([]b3.Root, error) {
	var roots []b3.Root
	err := x.scan([]byte{kind}, []byte{kind + 1}, func(k, _ []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x %w", meta.Clip(k), ErrMalformed)
		}
		roots = append(roots, b3.Root(k[1:]))
		return len(roots) < n, nil
	})
	return roots, err
}

// IsRemoved reports whether a large object is to be deleted in the bucket.
func (x *Index) IsRemoved(root b3.Root) (bool, error) { return x.has(rootKey(keyRemoved, root)) }

// DropRemoved notes, durably, that an object is not to be deleted in the bucket.
func (x *Index) DropRemoved(root b3.Root) error { return x.drop(rootKey(keyRemoved, root)) }

// CountRemoved returns how many objects are to be deleted in the bucket.
func (x *Index) CountRemoved() (n int64, err error) {
	err = x.scan([]byte{keyRemoved}, []byte{keyRemoved + 1}, func(_, _ []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Shipped is how much of a segment is in the bucket.
type Shipped struct {
	Whole  bool   // sealed, as one object
	End    int64  // bytes
	Summed bool   // sum is known
	Sum    uint32 // CRC-32C of the bytes, of parts
}

func shippedKey(num uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyShipped}, num)
}

func (s Shipped) encode() []byte {
	b := []byte{0}
	if s.Whole {
		b[0] = 1
	}
	b = binary.AppendUvarint(b, uint64(s.End))
	if s.Summed {
		b = binary.LittleEndian.AppendUint32(b, s.Sum)
	}
	return b
}

func decodeShipped(p []byte) (s Shipped, err error) {
	var end uint64
	if len(p) > 0 && p[0] <= 1 {
		rest := p[1:]
		if meta.Uvarint(&rest, &end) && (len(rest) == 0 || len(rest) == 4) && end <= meta.MaxSegmentBytes {
			s = Shipped{Whole: p[0] == 1, End: int64(end)}
			if len(rest) == 4 { // not written by earlier versions
				s.Summed, s.Sum = true, binary.LittleEndian.Uint32(rest)
			}
			return s, nil
		}
	}
	return s, fmt.Errorf("the index entry of a shipped segment is malformed: % x", meta.Clip(p))
}

// AllShipped returns what is in the bucket, by number.
func (x *Index) AllShipped() (map[uint64]Shipped, error) {
	all := map[uint64]Shipped{}
	err := x.scan([]byte{keyShipped}, []byte{keyShipped + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 9 {
			return false, fmt.Errorf("the index key % x is malformed", meta.Clip(k))
		}
		s, err := decodeShipped(v)
		all[binary.BigEndian.Uint64(k[1:])] = s
		return true, err
	})
	return all, err
}

// IsShipped reports whether something of a segment is in the bucket.
func (x *Index) IsShipped(num uint64) (bool, error) { return x.has(shippedKey(num)) }

// SetShipped notes how much of a segment is in the bucket.
func (x *Index) SetShipped(num uint64, s Shipped, sync bool) error {
	return x.set(shippedKey(num), s.encode(), sync)
}

// DropShipped notes, durably, that nothing of a segment is in the bucket.
func (x *Index) DropShipped(num uint64) error { return x.drop(shippedKey(num)) }

// Clean returns what setClean left; ok is false when it left nothing.
func (x *Index) Clean() (v []byte, ok bool, err error) { return x.value(keyClean) }

// SetClean notes, durably, that the store was closed in order, and what the next
// start needs not count.
func (x *Index) SetClean(v []byte) error { return x.set(keyClean, v, true) }

// DropClean notes, durably, that the store is open.
func (x *Index) DropClean() error { return x.drop(keyClean) }

// Scrub returns what setScrub left, nil for nothing.
func (x *Index) Scrub() ([]byte, error) {
	v, _, err := x.value(keyScrub)
	return v, err
}

// SetScrub notes where the background check is. A crash may forget it.
func (x *Index) SetScrub(v []byte) error { return x.set(keyScrub, v, false) }

// Whole reports whether the log has a record for every large object and pin.
func (x *Index) Whole() (bool, error) { return x.has(keyWhole) }

// SetWhole notes that the log has a record for every large object and pin.
func (x *Index) SetWhole(sync bool) error { return x.set(keyWhole, nil, sync) }

// Orphans reports whether there may be files in obj/ that no record names and
// nobody has looked at.
func (x *Index) Orphans() (bool, error) { return x.has(keyOrphans) }

// SetOrphans notes that there may be such files.
func (x *Index) SetOrphans() error { return x.set(keyOrphans, nil, false) }

// DropOrphans notes, durably, that all such files were looked at.
func (x *Index) DropOrphans() error { return x.drop(keyOrphans) }

// EachOldPart hands what a format before 3 noted of downloads to use: of each
// first its record, then the pages of its bitmap, whose number is page. It
// reports whether there was anything.
func (x *Index) EachOldPart(record func(root b3.Root, v []byte) error, page func(root b3.Root, n uint64, v []byte)) (found bool, err error) {
	err = x.scan([]byte{keyPart}, []byte{keyPart + 1}, func(k, v []byte) (bool, error) {
		found = true
		switch len(k) {
		case 1 + b3.Size:
			err := record(b3.Root(k[1:]), v)
			return err == nil, err
		case 1 + b3.Size + 8:
			page(b3.Root(k[1:1+b3.Size]), binary.BigEndian.Uint64(k[1+b3.Size:]), v)
		}
		return true, nil // what is neither costs what it said to be here
	})
	return found, err
}

// EachOldUpload is eachOldPart for uploads; id may be of any length.
func (x *Index) EachOldUpload(use func(id, v []byte) error) (found bool, err error) {
	err = x.scan([]byte{keyUpload}, []byte{keyUpload + 1}, func(k, v []byte) (bool, error) {
		found = true
		err := use(k[1:], v)
		return err == nil, err
	})
	return found, err
}

// DropOldNotes removes, durably, what a format before 3 noted of downloads and
// uploads.
func (x *Index) DropOldNotes() error {
	b := x.db.NewBatch()
	for _, key := range []byte{keyPart, keyUpload} {
		if err := b.DeleteRange([]byte{key}, []byte{key + 1}, nil); err != nil {
			return err
		}
	}
	return x.apply(b, true)
}
