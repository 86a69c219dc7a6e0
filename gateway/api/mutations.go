package api

import (
	"allium/protocols/b3"
	"allium/protocols/status"
)

// PinRequest is the body of /admin/pin.
type PinRequest struct {
	Key       string  `json:"key" query:"key,required"` // b3:… with or without a path below it
	Recursive bool    `json:"recursive,omitempty" query:"recursive"`
	Label     string  `json:"label,omitempty" query:"label"`
	Target    *Target `json:"target,omitempty"` // the durability that the pin asks for; without it, that stays
}

// UnpinRequest is the body of /admin/unpin.
type UnpinRequest struct {
	Key   string `json:"key" query:"key,required"`      // b3:… with or without a path below it
	Label string `json:"label,omitempty" query:"label"` // empty: all of the object's pins
}

// Subject returns the object and the label.
func (r *PinRequest) Subject() Subject { return Subject{Key: r.Key, Label: &r.Label} }

// Subject returns the object and the label.
func (r *UnpinRequest) Subject() Subject { return Subject{Key: r.Key, Label: &r.Label} }

// ReindexRequest is the body of /admin/reindex.
type ReindexRequest struct {
	Key string `json:"key,omitempty"` // what is announced again; empty: everything that is pinned
}

// Subject returns the object, if there is one.
func (r *ReindexRequest) Subject() Subject { return Subject{Key: r.Key} }

// Reindexed is the result of /admin/reindex.
type Reindexed struct {
	Objects int64          `json:"objects"`         // that were announced
	Failed  int64          `json:"failed"`          // that nobody took
	Error   *status.Report `json:"error,omitempty"` // of the first that failed
}

// RepairRequest is the body of /admin/repair.
type RepairRequest struct {
	Key string `json:"key,omitempty"` // what is proved; empty: every object in the store
}

// Subject returns the object, if there is one.
func (r *RepairRequest) Subject() Subject { return Subject{Key: r.Key} }

// Repaired is the result of /admin/repair.
type Repaired struct {
	Objects  int64     `json:"objects"`   // that were read again
	Bytes    int64     `json:"bytes"`     // of them
	Repaired int64     `json:"repaired"`  // of them that were damaged or missing and are whole again
	Bad      int64     `json:"bad"`       // of them that could not be mended
	Roots    []b3.Root `json:"bad_roots"` // the first MaxBadRoots of those
}

// MaxBadRoots is the maximum number of addresses that Repaired lists.
const MaxBadRoots = 100

// GCRequest is the body of /admin/gc.
type GCRequest struct {
	All  bool `json:"all,omitempty"`  // everything that nothing holds, not only down to the low-water mark
	Dry  bool `json:"dry,omitempty"`  // remove nothing, say what would be
	Fast bool `json:"fast,omitempty"` // take no rests
}
