package resumable

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"allium/protocols/b3"
	"allium/store/meta"
)

// newID returns a new ID for an upload of o.
func newID(o owner) (id meta.UploadID) {
	binary.BigEndian.PutUint32(id[:], uint32(o))
	_, _ = rand.Read(id[ownerSize:]) // never fails
	return id
}

const ownerSize = 4

// ownerOf returns whose upload it is. IDs of older versions are random, so each has another
// owner.
func ownerOf(id meta.UploadID) owner { return owner(binary.BigEndian.Uint32(id[:])) }

// ParseID reverses [meta.UploadID.String].
func ParseID(s string) (id meta.UploadID, ok bool) {
	if len(s) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil && id.String() == s
}

const formUpload = 1 // flags, length, offset, expires, expect and root where flagged, label

// Flags of an upload.
const (
	uploadPins = 1 << iota
	uploadExpects
	uploadHasRoot
	uploadDone
	uploadNew

	uploadFlags = uploadNew<<1 - 1
)

// Encode encodes rec, without its ID.
func Encode(rec meta.Upload) []byte {
	flags := byte(0)
	for _, f := range []struct {
		on  bool
		bit byte
	}{
		{rec.Pin, uploadPins}, {!rec.Expect.IsZero(), uploadExpects}, {!rec.Root.IsZero(), uploadHasRoot},
		{rec.Done, uploadDone}, {rec.IsNew, uploadNew},
	} {
		if f.on {
			flags |= f.bit
		}
	}
	b := binary.AppendUvarint([]byte{formUpload, flags}, uint64(rec.Length))
	b = binary.AppendUvarint(b, uint64(rec.Offset))
	b = binary.AppendUvarint(b, uint64(rec.Expires))
	if flags&uploadExpects != 0 {
		b = append(b, rec.Expect[:]...)
	}
	if flags&uploadHasRoot != 0 {
		b = append(b, rec.Root[:]...)
	}
	return append(b, rec.Label...)
}

// Decode reverses Encode. It accepts no other bytes.
func Decode(id meta.UploadID, p []byte) (meta.Upload, error) {
	bad := fmt.Errorf("the index entry of an upload is malformed: % x", meta.Excerpt(p))
	if len(p) < 2 || p[0] != formUpload || p[1]&^uploadFlags != 0 {
		return meta.Upload{}, bad
	}
	flags, rest := p[1], p[2:]
	var length, offset, expires uint64
	if !meta.Uvarint(&rest, &length) || !meta.Uvarint(&rest, &offset) || !meta.Uvarint(&rest, &expires) {
		return meta.Upload{}, bad
	}
	rec := meta.Upload{ID: id, Expires: meta.Second(expires), Done: flags&uploadDone != 0, IsNew: flags&uploadNew != 0}
	rec.Length, rec.Offset, rec.Pin = int64(length), int64(offset), flags&uploadPins != 0
	for _, f := range []struct {
		bit  byte
		root *b3.Root
	}{{uploadExpects, &rec.Expect}, {uploadHasRoot, &rec.Root}} {
		if flags&f.bit == 0 {
			continue
		}
		if len(rest) < b3.Size {
			return meta.Upload{}, bad
		}
		*f.root, rest = b3.Root(rest[:b3.Size]), rest[b3.Size:]
		if f.root.IsZero() {
			return meta.Upload{}, bad
		}
	}
	rec.Label = string(rest)
	whole := !rec.Root.IsZero()
	if length > b3.MaxSize || offset > length || expires > 1<<32-1 || meta.CheckLabel(rec.Label) != nil ||
		whole && offset != length || rec.Done && !whole || rec.IsNew && !rec.Done {
		return meta.Upload{}, bad
	}
	return rec, nil
}
