package api

import (
	"time"

	"allium/protocols/b3"
)

// Damage is one place in the store that is not what was written there.
type Damage struct {
	Kind string `json:"kind"` // log, body, file, note, index, format or object
	// "open" (something may be lost), "mended" (nothing was), "repaired" (it is back, from peers) or "accepted"
	State  string    `json:"state"`
	File   string    `json:"file"`            // below the store's directory
	Offset int64     `json:"offset"`          // of the first damaged byte
	Length int64     `json:"length"`          // bytes; 0 where that has no meaning
	Left   int64     `json:"left"`            // bytes of records that are lost and of which nobody knows whose they were
	Roots  []b3.Root `json:"roots,omitempty"` // objects that are known to be affected, the first 16
	Cause  string    `json:"reason"`
	Found  time.Time `json:"found,omitzero"` // zero for an object, which is listed while it is damaged
	Ended  time.Time `json:"ended,omitzero"` // when it was no longer open
}

// DamageReport is the damage of a store.
type DamageReport struct {
	Open int `json:"open"` // findings that are open: nothing is evicted
	// of them those of which nobody can tell what was lost: nothing is added, uploaded or pinned
	Unknown int      `json:"unknown"`
	Damage  []Damage `json:"damage"`  // oldest first, then damaged objects by address
	Objects int      `json:"objects"` // damaged objects that are listed, at most 4096: they stop no evictions
}
