package meta

import (
	"encoding/hex"

	"allium/protocols/b3"
)

// Staging is a large object that is being written. The caller that staged it
// closes its files after the backend has published or discarded it.
type Staging struct {
	Pair
	Own any // state of the backend

	// Fields of a download, which one goroutine uses at a time.
	Root   b3.Root
	Kept   bool  // a checkpoint was saved: the part survives a restart
	Failed error // sticky: a sync failed, so the state on disk is unknown

	// Owned marks an upload: if it cannot be published, it stays for another try.
	Owned bool
}

// Partial is the state of a partial object that a checkpoint saves beside the bitmap of its groups.
type Partial struct {
	Root   b3.Root
	Size   int64 // of the object, proved
	Stored int64 // bytes that are stored
	Used   Second
}

// PageBits is the count of numbers that a page of a bitmap covers. For groups that is 256 MiB of an object.
const PageBits = 4096

// Bits is one page of a bitmap: the numbers from a multiple of PageBits on, lowest bit first.
type Bits [PageBits / 64]uint64

// BitsPage is one page of the bitmap of groups.
type BitsPage struct {
	Number int64 // its first group is Number × PageBits
	Bits   Bits
}

// UploadOptions say what an upload becomes.
type UploadOptions struct {
	Length int64   // size of the whole object in bytes
	Expect b3.Root // address that the object must have; zero allows any
	Label  string  // whose quota it counts against, and the label of its pin
	Pin    bool    // pin the object, not recursively, unless the label pins it already
}

// UploadID identifies an upload. Its first four bytes are the owner and the others are random.
// Anyone who knows it may continue the upload.
type UploadID [16]byte

// String returns the ID in hex, as callers and file names use it.
func (id UploadID) String() string { return hex.EncodeToString(id[:]) }

// Upload is the state of an upload that the backend records beside its bytes.
type Upload struct {
	UploadOptions
	ID      UploadID
	Offset  int64 // bytes that are durable
	Expires Second
	Root    b3.Root // set before the object is published
	Done    bool    // published and pinned
	IsNew   bool    // for a done upload: the object was new to the store
}
