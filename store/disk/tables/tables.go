package tables

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Watermark returns up to where the index has the log, and the number of the last batch
// there. Both are zero when the index is new.
func (x *Index) Watermark() (end Position, batch uint64, err error) {
	v, ok, err := x.value(keyWatermark)
	if !ok {
		return Position{}, 0, err
	}
	return DecodeWatermark(v)
}

// Segments returns the segments of the log and their ends. ok is false when the index has
// no list, as before format 3.
func (x *Index) Segments() (ends map[uint64]int64, ok bool, err error) {
	v, ok, err := x.value(keySegments)
	if !ok {
		return nil, false, err
	}
	ends, err = DecodeSegments(v)
	return ends, err == nil, err
}

// PutEntry enters an object without sync. It is for a rebuild, which finds objects that the
// log lacks.
func (x *Index) PutEntry(e meta.Entry) error {
	return x.set(rootKey(keyObject, e.Root), appendEntry(nil, e), false)
}

// LastUse returns when e was last used, which is not before it was added.
func (x *Index) LastUse(e meta.Entry) (meta.Second, error) {
	v, done, ok, err := x.read(rootKey(keyUse, e.Root))
	if !ok {
		return e.Added, err
	}
	used, err := decodeUse(v)
	_ = done.Close() // frees memory
	return max(used, e.Added), err
}

// FileRemoval returns the number of the removal of root while its files may still exist.
func (x *Index) FileRemoval(root b3.Root) (n uint64, ok bool, err error) {
	return fileRemovalFrom(x.db, root)
}

func fileRemovalFrom(r pebble.Reader, root b3.Root) (n uint64, ok bool, err error) {
	v, done, ok, err := readFrom(r, rootKey(keyFileRemoval, root))
	if !ok {
		return 0, false, err
	}
	defer done.Close() // frees memory
	if len(v) != 8 {
		return 0, false, fmt.Errorf("the index entry of a removal %w: % x", ErrMalformed, meta.Excerpt(v))
	}
	return binary.LittleEndian.Uint64(v), true, nil
}

// FileRemovals returns the first n large objects, in order of address, whose files are to
// be deleted.
func (x *Index) FileRemovals(n int) ([]b3.Root, error) { return x.firstRoots(keyFileRemoval, n) }

// BucketRemovals returns the first n large objects, in order of address, that are to be
// deleted from the bucket.
func (x *Index) BucketRemovals(n int) ([]b3.Root, error) { return x.firstRoots(keyBucketRemoval, n) }

func (x *Index) firstRoots(kind byte, n int) ([]b3.Root, error) {
	var roots []b3.Root
	err := x.scan([]byte{kind}, []byte{kind + 1}, func(k, _ []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x %w", meta.Excerpt(k), ErrMalformed)
		}
		roots = append(roots, b3.Root(k[1:]))
		return len(roots) < n, nil
	})
	return roots, err
}

// HasBucketRemoval reports whether root is to be deleted from the bucket.
func (x *Index) HasBucketRemoval(root b3.Root) (bool, error) {
	return x.has(rootKey(keyBucketRemoval, root))
}

// DropBucketRemoval durably drops the note that root is to be deleted from the bucket.
func (x *Index) DropBucketRemoval(root b3.Root) error { return x.drop(rootKey(keyBucketRemoval, root)) }

// CountBucketRemovals returns how many objects are to be deleted from the bucket.
func (x *Index) CountBucketRemovals() (n int64, err error) {
	err = x.scan([]byte{keyBucketRemoval}, []byte{keyBucketRemoval + 1}, func(_, _ []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Shipped describes how much of a segment is in the bucket.
type Shipped struct {
	Whole  bool   // the segment is sealed and uploaded as one object
	End    int64  // bytes that are uploaded
	HasCRC bool   // CRC is known
	CRC    uint32 // CRC-32C of the uploaded bytes, when they are in parts
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
	if s.HasCRC {
		b = binary.LittleEndian.AppendUint32(b, s.CRC)
	}
	return b
}

func decodeShipped(p []byte) (s Shipped, err error) {
	var end uint64
	if len(p) > 0 && p[0] <= 1 {
		rest := p[1:]
		if meta.Uvarint(&rest, &end) && (len(rest) == 0 || len(rest) == 4) && end <= meta.MaxSegmentBytes {
			s = Shipped{Whole: p[0] == 1, End: int64(end)}
			if len(rest) == 4 { // earlier versions wrote no CRC
				s.HasCRC, s.CRC = true, binary.LittleEndian.Uint32(rest)
			}
			return s, nil
		}
	}
	return s, fmt.Errorf("the index entry of a shipped segment is malformed: % x", meta.Excerpt(p))
}

// AllShipped returns what is in the bucket of each segment, by its number.
func (x *Index) AllShipped() (map[uint64]Shipped, error) {
	all := map[uint64]Shipped{}
	err := x.scan([]byte{keyShipped}, []byte{keyShipped + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 9 {
			return false, fmt.Errorf("the index key % x is malformed", meta.Excerpt(k))
		}
		s, err := decodeShipped(v)
		all[binary.BigEndian.Uint64(k[1:])] = s
		return true, err
	})
	return all, err
}

// IsShipped reports whether any part of a segment is in the bucket.
func (x *Index) IsShipped(num uint64) (bool, error) { return x.has(shippedKey(num)) }

// SetShipped sets how much of a segment is in the bucket.
func (x *Index) SetShipped(num uint64, s Shipped, sync bool) error {
	return x.set(shippedKey(num), s.encode(), sync)
}

// DropShipped durably notes that nothing of a segment is in the bucket.
func (x *Index) DropShipped(num uint64) error { return x.drop(shippedKey(num)) }

// Clean returns the value that SetClean stored. ok is false when there is none.
func (x *Index) Clean() (totals []byte, ok bool, err error) { return x.value(keyClean) }

// SetClean durably notes that the store was closed in order, with the totals that the next
// start then need not count.
func (x *Index) SetClean(totals []byte) error { return x.set(keyClean, totals, true) }

// DropClean durably notes that the store is open.
func (x *Index) DropClean() error { return x.drop(keyClean) }

// ScrubState returns the value that SetScrubState stored, nil for none.
func (x *Index) ScrubState() ([]byte, error) {
	v, _, err := x.value(keyScrub)
	return v, err
}

// SetScrubState stores the progress of the scrub. A crash may lose it.
func (x *Index) SetScrubState(v []byte) error { return x.set(keyScrub, v, false) }

// LogComplete reports whether the log has a record for every large object and pin.
func (x *Index) LogComplete() (bool, error) { return x.has(keyLogComplete) }

// SetLogComplete notes that the log has a record for every large object and pin.
func (x *Index) SetLogComplete(sync bool) error { return x.set(keyLogComplete, nil, sync) }

// MayHaveOrphans reports whether obj/ may hold files that no record names and that were not
// checked yet.
func (x *Index) MayHaveOrphans() (bool, error) { return x.has(keyOrphans) }

// SetOrphans notes that obj/ may hold such files.
func (x *Index) SetOrphans() error { return x.set(keyOrphans, nil, false) }

// DropOrphans durably notes that all such files were checked.
func (x *Index) DropOrphans() error { return x.drop(keyOrphans) }

// EachOldPart reads the downloads that formats before 3 noted in the index. For each it
// calls record with its record, then page with each page of its bitmap. It reports whether
// there were any.
func (x *Index) EachOldPart(
	record func(root b3.Root, v []byte) error, page func(root b3.Root, n uint64, v []byte),
) (found bool, err error) {
	err = x.scan([]byte{keyPart}, []byte{keyPart + 1}, func(k, v []byte) (bool, error) {
		found = true
		switch len(k) {
		case 1 + b3.Size:
			err := record(b3.Root(k[1:]), v)
			return err == nil, err
		case 1 + b3.Size + 8:
			page(b3.Root(k[1:1+b3.Size]), binary.BigEndian.Uint64(k[1+b3.Size:]), v)
		}
		return true, nil // a malformed key is skipped: only that part of a bitmap is lost
	})
	return found, err
}

// EachOldUpload reads the uploads that formats before 3 noted in the index. An id may have
// any length. It reports whether there were any.
func (x *Index) EachOldUpload(use func(id, v []byte) error) (found bool, err error) {
	err = x.scan([]byte{keyUpload}, []byte{keyUpload + 1}, func(k, v []byte) (bool, error) {
		found = true
		err := use(k[1:], v)
		return err == nil, err
	})
	return found, err
}

// DropOldNotes durably deletes the downloads and uploads that formats before 3 noted in the
// index.
func (x *Index) DropOldNotes() error {
	b := x.db.NewBatch()
	for _, key := range []byte{keyPart, keyUpload} {
		if err := b.DeleteRange([]byte{key}, []byte{key + 1}, nil); err != nil {
			return err
		}
	}
	return x.apply(b, true)
}
