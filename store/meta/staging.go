package meta

import "allium/protocols/b3"

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
