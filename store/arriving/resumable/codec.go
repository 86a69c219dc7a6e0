package resumable

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Options say what an upload becomes.
type Options struct {
	Length int64   // size of the whole object in bytes
	Expect b3.Root // address that the object must have; zero allows any
	Label  string  // whose quota it counts against, and the label of its pin
	Pin    bool    // pin the object, not recursively, unless the label pins it already
}

// ID identifies an upload. Its first four bytes are the owner and the others are random.
// Anyone who knows it may continue the upload.
type ID [16]byte

// newID returns a new ID for an upload of o.
func newID(o owner) (id ID) {
	binary.BigEndian.PutUint32(id[:], uint32(o))
	_, _ = rand.Read(id[ownerSize:]) // never fails
	return id
}

const ownerSize = 4

// owner returns whose upload it is. IDs of older versions are random, so each has another
// owner.
func (id ID) owner() owner { return owner(binary.BigEndian.Uint32(id[:])) }

// String returns the ID in hex, as callers and file names use it.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reverses String.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil && id.String() == s
}

// Record is the state of an upload that the backend records beside its bytes.
type Record struct {
	Options
	ID      ID
	Offset  int64 // bytes that are durable
	Expires meta.Second
	Root    b3.Root // set before the object is published
	Done    bool    // published and pinned
	IsNew   bool    // for a done upload: the object was new to the store
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
func Encode(rec Record) []byte {
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
func Decode(id ID, p []byte) (Record, error) {
	bad := fmt.Errorf("the index entry of an upload is malformed: % x", meta.Excerpt(p))
	if len(p) < 2 || p[0] != formUpload || p[1]&^uploadFlags != 0 {
		return Record{}, bad
	}
	flags, rest := p[1], p[2:]
	var length, offset, expires uint64
	if !meta.Uvarint(&rest, &length) || !meta.Uvarint(&rest, &offset) || !meta.Uvarint(&rest, &expires) {
		return Record{}, bad
	}
	rec := Record{ID: id, Expires: meta.Second(expires), Done: flags&uploadDone != 0, IsNew: flags&uploadNew != 0}
	rec.Length, rec.Offset, rec.Pin = int64(length), int64(offset), flags&uploadPins != 0
	for _, f := range []struct {
		bit  byte
		root *b3.Root
	}{{uploadExpects, &rec.Expect}, {uploadHasRoot, &rec.Root}} {
		if flags&f.bit == 0 {
			continue
		}
		if len(rest) < b3.Size {
			return Record{}, bad
		}
		*f.root, rest = b3.Root(rest[:b3.Size]), rest[b3.Size:]
		if f.root.IsZero() {
			return Record{}, bad
		}
	}
	rec.Label = string(rest)
	whole := !rec.Root.IsZero()
	if length > b3.MaxSize || offset > length || expires > 1<<32-1 || meta.CheckLabel(rec.Label) != nil ||
		whole && offset != length || rec.Done && !whole || rec.IsNew && !rec.Done {
		return Record{}, bad
	}
	return rec, nil
}
