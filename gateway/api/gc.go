package api

import (
	"time"

	"allium/protocols/b3"
)

// GCOptions say what a garbage collection does.
type GCOptions struct {
	All  bool `query:"all" doc:"removes all of them, not only down to the low-water mark"`
	Dry  bool `query:"dry" doc:"removes nothing and reports what it would remove"`
	Fast bool `query:"fast" doc:"runs without pauses"`
	List bool `query:"list" doc:"lists each removed object"`
}

// GCObject is one object that a collection removes.
type GCObject struct {
	Root    b3.Root   `json:"root"`
	Size    int64     `json:"size"`             // bytes
	Used    time.Time `json:"used,omitzero"`    // last, to the second
	Partial bool      `json:"partial,omitzero"` // a download left half done; Size is what is here of it
}

// GCCount is a number of objects and their bytes.
type GCCount struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// GCClass is the objects of one fate: "pinned", "leased" (in use), "recent"
// (used since the collection began), "held" (an add or a fetch under way will
// pin them), "cache" (nothing holds them, their space is not needed), "removed".
type GCClass struct {
	Class string `json:"class"`
	GCCount
}

// GCDamage is a directory below a pin that cannot be read, or a pinned object
// that is lost: what it keeps is unknown, so nothing is removed.
type GCDamage struct {
	Pin  Pin     `json:"pin"`
	Node b3.Root `json:"node"`
	Path string  `json:"path"` // below the pin
	Fix  string  `json:"fix"`
}

// GCReport is the result of a collection, or the result that a dry one would have.
type GCReport struct {
	Dry     bool       `json:"dry"`
	Classes []GCClass  `json:"classes"`
	Used    GCCount    `json:"used"`  // before
	Max     GCCount    `json:"max"`   // 0: no bound
	Low     GCCount    `json:"low"`   // where an eviction ends
	Need    GCCount    `json:"need"`  // to be removed to get there
	Free    int64      `json:"free"`  // bytes on the disk, -1: it cannot tell
	Nodes   int64      `json:"nodes"` // directories read below pins
	Damaged []GCDamage `json:"damaged,omitempty"`
	Blocked string     `json:"blocked,omitempty"` // why damage keeps everything, and what to do; empty: it does not
	TookMS  float64    `json:"took_ms"`
}

// GCStep is one step from a pin down to an object.
type GCStep struct {
	Root b3.Root `json:"root"`
	Name string  `json:"name,omitempty"` // in the directory above; empty for the top and inside a large directory
}

// GCWhy says what holds an object.
type GCWhy struct {
	Root    b3.Root   `json:"root"`
	Kept    bool      `json:"kept"`              // no collection removes it
	Here    string    `json:"here"`              // "whole", "partly", "damaged" or "no"
	Size    int64     `json:"size"`              // bytes that are here
	Used    time.Time `json:"used,omitzero"`     // last, to the second
	Pins    []Pin     `json:"pins"`              // of the object itself
	Above   *Pin      `json:"above,omitempty"`   // a recursive pin that holds it
	Path    []GCStep  `json:"path,omitempty"`    // from Above to the object
	Unknown string    `json:"unknown,omitempty"` // why it cannot be told whether a pin holds it
	Leases  int       `json:"leases"`            // readers and writers that use it
	Ingest  bool      `json:"ingest"`            // it is being downloaded
	Held    bool      `json:"held"`              // an add or a fetch under way keeps it until its pin is set
	// the next eviction removes what was used then or before; zero when not known
	Cutoff time.Time `json:"cutoff,omitzero"`
	Next   bool      `json:"next"` // this object among it
}

// GCRequest is the body of /admin/gc.
type GCRequest struct {
	All  bool `json:"all,omitempty"`  // everything that nothing holds, not only down to the low-water mark
	Dry  bool `json:"dry,omitempty"`  // remove nothing, say what would be
	Fast bool `json:"fast,omitempty"` // take no rests
}
