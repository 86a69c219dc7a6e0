package api

import "allium/protocols/b3"

// Stored is an object that was sent, or was there already.
type Stored struct {
	Root   b3.Root `json:"root"`
	Size   int64   `json:"size"` // bytes
	New    bool    `json:"new"`  // it was not there before
	Pinned bool    `json:"pinned"`
}
