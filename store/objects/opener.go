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

// Deps holds the dependencies of an Opener.
type Deps struct {
	env.Env

	Backend   meta.Objects
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
type Opener struct {
	Catalog
	Loader
	deps Deps
}

// NewOpener returns an Opener.
func NewOpener(deps Deps) *Opener {
	return &Opener{
		Catalog: Catalog{deps.Backend, deps.Admission, deps.Leases},
		Loader:  Loader{deps.Backend, deps.Hash}, deps: deps,
	}
}

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
