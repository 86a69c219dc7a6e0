package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"allium/protocols/b3"
)

// uploadID names an upload. It is random: whoever knows it may go on with it.
type uploadID [16]byte

func newUploadID() (id uploadID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// String is the name in hex, as callers and files have it.
func (id uploadID) String() string { return hex.EncodeToString(id[:]) }

// parseUploadID is the inverse of String.
func parseUploadID(s string) (id uploadID, ok bool) {
	if len(s) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil && id.String() == s
}

// uploadRecord is what the backend notes of an upload beside its bytes.
type uploadRecord struct {
	UploadOptions
	id      uploadID
	offset  int64 // bytes that are durable
	expires second
	root    b3.Root // set before the object is published
	done    bool    // published and pinned
	isNew   bool    // of one that is done
}

// info is what callers see.
func (r uploadRecord) info() Upload {
	if r.id == (uploadID{}) {
		return Upload{}
	}
	u := Upload{ID: r.id.String(), UploadOptions: r.UploadOptions, Offset: r.offset, Expires: r.expires.time()}
	if r.done {
		u.Root, u.New = r.root, r.isNew
	}
	return u
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

// encodeUpload encodes rec as the value of its key.
func encodeUpload(rec uploadRecord) []byte {
	flags := byte(0)
	for _, f := range []struct {
		on  bool
		bit byte
	}{
		{rec.Pin, uploadPins}, {!rec.Expect.IsZero(), uploadExpects}, {!rec.root.IsZero(), uploadHasRoot},
		{rec.done, uploadDone}, {rec.isNew, uploadNew},
	} {
		if f.on {
			flags |= f.bit
		}
	}
	b := binary.AppendUvarint([]byte{formUpload, flags}, uint64(rec.Length))
	b = binary.AppendUvarint(b, uint64(rec.offset))
	b = binary.AppendUvarint(b, uint64(rec.expires))
	if flags&uploadExpects != 0 {
		b = append(b, rec.Expect[:]...)
	}
	if flags&uploadHasRoot != 0 {
		b = append(b, rec.root[:]...)
	}
	return append(b, rec.Label...)
}

// decodeUpload is the inverse of encodeUpload. It takes nothing else.
func decodeUpload(id uploadID, p []byte) (uploadRecord, error) {
	bad := fmt.Errorf("the index entry of an upload is malformed: % x", clip(p))
	if len(p) < 2 || p[0] != formUpload || p[1]&^uploadFlags != 0 {
		return uploadRecord{}, bad
	}
	flags, rest := p[1], p[2:]
	var length, offset, expires uint64
	if !uvarint(&rest, &length) || !uvarint(&rest, &offset) || !uvarint(&rest, &expires) {
		return uploadRecord{}, bad
	}
	rec := uploadRecord{id: id, expires: second(expires), done: flags&uploadDone != 0, isNew: flags&uploadNew != 0}
	rec.Length, rec.offset, rec.Pin = int64(length), int64(offset), flags&uploadPins != 0
	for _, f := range []struct {
		bit  byte
		root *b3.Root
	}{{uploadExpects, &rec.Expect}, {uploadHasRoot, &rec.root}} {
		if flags&f.bit == 0 {
			continue
		}
		if len(rest) < b3.Size {
			return uploadRecord{}, bad
		}
		*f.root, rest = b3.Root(rest[:b3.Size]), rest[b3.Size:]
		if f.root.IsZero() {
			return uploadRecord{}, bad
		}
	}
	rec.Label = string(rest)
	whole := !rec.root.IsZero()
	if length > b3.MaxSize || offset > length || expires > 1<<32-1 || CheckLabel(rec.Label) != nil ||
		whole && offset != length || rec.done && !whole || rec.isNew && !rec.done {
		return uploadRecord{}, bad
	}
	return rec, nil
}

func uploadKey(id uploadID) []byte { return append([]byte{keyUpload}, id[:]...) }
