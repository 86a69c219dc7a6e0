package api

import (
	"allium/protocols/status"
)

// MaxRoots is the maximum number of addresses that one call of Keep or Files takes.
const MaxRoots = 4096

// Change is one entry that is not the same in two directories.
type Change struct {
	Op   Op     `json:"op"`
	Path string `json:"path"`          // slash-separated; "" is what the keys name themselves
	Old  *Entry `json:"old,omitempty"` // nil: added
	New  *Entry `json:"new,omitempty"` // nil: removed
}

// Op is the kind of a Change: the entry was added, removed or changed.
type Op string

// The kinds of change. Changed means another kind, content, executable bit or
// link target.
const (
	AddedEntry   Op = "added"
	RemovedEntry Op = "removed"
	ChangedEntry Op = "changed"
)

// CheckRoots returns bad_request unless n, the addresses of a call, is 1 to MaxRoots.
func CheckRoots(n int) error {
	if n < 1 || n > MaxRoots {
		return status.Errorf(status.BadRequest, "%d addresses in one call; 1 to %d are taken", n, MaxRoots)
	}
	return nil
}
