package meta

import (
	"allium/protocols/b3"
)

// Staging is a large object on its way in. Who staged it closes its files, when
// the backend has published or discarded it.
type Staging struct {
	Pair
	Own any // what the backend knows of it

	// Of a download; used by one goroutine at a time.
	Root   b3.Root
	Kept   bool  // save noted it: it is there after a restart
	Failed error // sticky: a sync failed, and what is on disk is unknown

	// Of an upload.
	Owned bool // what cannot be published stays, for its owner to try again
}
