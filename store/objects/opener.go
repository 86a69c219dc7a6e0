// Package objects looks up, opens and proves the visible objects of a store.
//
// [Opener] finds an object where it is quickest to read: in the RAM cache, in the cache of open
// files, in the backend, or in a file that was moved out. It leases what it opens, so that the
// object stays readable while others delete. Every byte is proved before it leaves an [Object]. If a
// proof fails, the object is marked corrupt, counted, reported, and refused until it is put again.
//
// [Objects] is the part of the store's API that reads. Its methods enter through admission, and note
// what counts as a use.
package objects

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/arriving/partial"
	"allium/store/cache"
	"allium/store/lease"
	"allium/store/meta"
	"allium/store/moved"
	"allium/store/uses"
)

// Backend keeps the objects.
type Backend interface {
	// Get returns the entry of a visible object.
	Get(root b3.Root) (e meta.Entry, ok bool, err error)
	// GetAll returns the entries of visible objects, in the order of roots. An
	// entry whose object is not visible has a zero Root.
	GetAll(roots []b3.Root) ([]meta.Entry, error)
	// Entries appends visible objects to page, in ascending order from root, up to
	// its capacity. A page that is not full is the last one.
	Entries(root b3.Root, page []meta.Entry) ([]meta.Entry, error)
	// Read returns a small object's bytes, unverified.
	Read(e meta.Entry) ([]byte, error)
	// OpenPair opens a large object, unverified. Callers only read the pair.
	OpenPair(e meta.Entry) (meta.Pair, error)
	// UsedAt returns the last use of e: the time it was added, or touched later.
	UsedAt(e meta.Entry) (meta.Second, error)
	// Mark sets or clears an entry's corrupt flag.
	Mark(e meta.Entry, corrupt bool) error
}

// Deps holds the dependencies of an Opener.
type Deps struct {
	env.Env

	Backend   Backend
	Moved     *moved.Table
	Admission *admission.Control
	Leases    *lease.Table
	Uses      *uses.Tracker
	Hash      *b3.HashQueue    // may be nil
	RAM       *cache.RAM       // nil if there is none
	Files     *cache.OpenFiles // nil if there is none

	Integrity *prometheus.CounterVec // failed checks; label: reason
	OnDamage  func(root b3.Root)     // called after an object was marked; must not block
}

// Opener opens the stored objects. Its methods are safe for concurrent use.
type Opener struct{ deps Deps }

// NewOpener returns an Opener.
func NewOpener(deps Deps) *Opener { return &Opener{deps} }

// Objects are the visible objects of a store. Its methods are safe for concurrent use.
type Objects struct {
	p        *Opener
	partials *partial.Table
}

// New returns the objects that p opens. Partial objects are in partials.
func New(p *Opener, partials *partial.Table) *Objects { return &Objects{p, partials} }

// Info describes one object.
type Info struct {
	Root    b3.Root
	Size    int64 // bytes
	New     bool  // set by a put that stored the object; false if it was already stored whole
	Corrupt bool  // set by a listing if the object's bytes failed a check and are not served
}
