package tables

import (
	"encoding/binary"

	"allium/protocols/b3"
)

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
