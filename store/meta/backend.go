package meta

import (
	"context"

	"allium/protocols/b3"
)

// Backend keeps what a store has: objects, pins, and what arrives. The store passes it only
// verified objects. Its methods are safe for concurrent use.
type Backend interface {
	Objects
	Pins
	Downloads
	Uploads
	State
}

// Objects keeps the visible objects.
type Objects interface {
	// Get returns the entry of a visible object.
	Get(root b3.Root) (e Entry, ok bool, err error)
	// GetAll returns the entries of visible objects, in the order of roots. An
	// entry whose object is not visible has a zero Root.
	GetAll(roots []b3.Root) ([]Entry, error)
	// Entries appends visible objects to page, in ascending order from root, up to
	// its capacity. A page that is not full is the last one.
	Entries(root b3.Root, page []Entry) ([]Entry, error)
	// Read returns a small object's bytes, unverified.
	Read(e Entry) ([]byte, error)
	// OpenPair opens a large object, unverified. Callers only read the pair.
	OpenPair(e Entry) (Pair, error)
	// UsedAt returns the last use of e: the time it was added, or touched later.
	UsedAt(e Entry) (Second, error)
	// Mark sets or clears an entry's corrupt flag.
	Mark(e Entry, corrupt bool) error
	// RemoveAll deletes at most 1,024 different visible objects, durably and with
	// one sync. It also works when the disk is too full for a put. It skips entries
	// that are gone or were stored again.
	RemoveAll(ctx context.Context, es []Entry) error
}

// Pins keeps the pins.
type Pins interface {
	// SetPins sets pins durably and together. Each replaces the pin with its label.
	SetPins(pins []Pin) error
	// SetTarget durably sets the target of a pin that is not released, if t replaces the
	// one that it has, and reports whether it did.
	SetTarget(root b3.Root, label string, t Target) (bool, error)
	// DropPin removes a pin durably and reports whether there was one. A pin with a target
	// stays, released.
	DropPin(root b3.Root, label string) (bool, error)
	// ForgetPin removes a released pin durably and reports whether there was one.
	ForgetPin(root b3.Root, label string) (bool, error)
	// Pin returns one pin, also a released one.
	Pin(root b3.Root, label string) (p Pin, ok bool, err error)
	// Pins appends pins to page, in ascending order from (root, label), up to its
	// capacity, without released ones. A page that is not full is the last one.
	Pins(root b3.Root, label string, page []Pin) ([]Pin, error)
	// Released is Pins for released pins.
	Released(root b3.Root, label string, page []Pin) ([]Pin, error)
}

// Downloads keeps partial objects, and publishes large objects that are complete.
type Downloads interface {
	// Stage creates the files of a large object.
	Stage(root b3.Root) (*Staging, error)
	// Discard deletes the files that Stage created, and what Save recorded of them.
	Discard(st *Staging) error
	// Publish makes a complete staged object visible and durable under root. With
	// deferred, the next successful Flush does. A failed Publish discards the
	// object. Publish calls done once, when it no longer needs the files and root
	// may be removed.
	Publish(
		ctx context.Context, root b3.Root, size int64, st *Staging, deferred bool, done func(),
	) (isNew bool, err error)
	// Resume opens what the last Save of root recorded. st is nil when the files are lost or
	// nothing is recorded; rec and pages are what is recorded.
	Resume(root b3.Root) (st *Staging, rec Partial, pages []BitsPage, err error)
	// Save makes what was written to st durable, then records rec and the changed pages of
	// the bitmap of groups, and sets st.Kept.
	Save(st *Staging, rec Partial, pages []BitsPage) error
	// Partial returns what Save recorded of root.
	Partial(root b3.Root) (rec Partial, ok bool, err error)
	// Partials appends what Save recorded, from root on in ascending order, to page up to its
	// capacity. Fewer means the end.
	Partials(root b3.Root, page []Partial) ([]Partial, error)
	// DropPartial deletes what Save recorded of root, and its files, which nobody uses.
	DropPartial(root b3.Root) error
}

// Uploads keeps uploads that can be resumed.
type Uploads interface {
	// Uploads returns the recorded uploads, when the store opens.
	Uploads() ([]Upload, error)
	// OpenUpload opens the files of an upload, and empties each file that is not needed:
	// the data at offset 0, the outboard when outboard, its length in bytes, is 0. Missing
	// data is fs.ErrNotExist.
	OpenUpload(rec Upload, outboard int64) (*Staging, error)
	// NoteUpload makes the bytes of st durable, unless st is nil, and then records rec,
	// durably. It deletes the files of an upload that is done.
	NoteUpload(rec Upload, st *Staging) error
	// DropUpload deletes the record and the files of an upload.
	DropUpload(id UploadID) error
}

// State reports the state of a backend.
type State interface {
	// Totals is the backend's count of visible objects.
	Totals() *Totals
	// Usage returns the bytes of the backend's files and RAM, without a scan. It is
	// called only while the store is open.
	Usage() Usage
	// Failure returns the sticky error of writing, nil while writing works.
	Failure() error
	// Away returns why some objects cannot be read for now, nil if all can be read.
	Away() error
}
