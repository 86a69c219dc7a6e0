package meta

import (
	"time"

	"allium/protocols/b3"
)

// DamageKind says what of the store is damaged.
type DamageKind string

// The kinds of damage.
const (
	DamageLog    DamageKind = "log"    // bytes of a segment that are no record, or a segment that is missing or short
	DamageBody   DamageKind = "body"   // the body of a record; its header says whose it is
	DamageFile   DamageKind = "file"   // a file in obj/ or part/ that nothing accounts for, or that is missing
	DamageNote   DamageKind = "note"   // what was noted of a download or an upload
	DamageIndex  DamageKind = "index"  // the index, which is made anew from the log
	DamageFormat DamageKind = "format" // FORMAT, LOCK, or the list of damage itself
)

// DamageState says what became of damage.
type DamageState string

// The states. Damage is open until something accounts for all of it.
const (
	DamageOpen     DamageState = "open"     // something may be lost
	DamageMended   DamageState = "mended"   // nothing was lost: it could be told from what is left
	DamageRepaired DamageState = "repaired" // what was lost is back, from peers
	DamageAccepted DamageState = "accepted" // an operator accepted the loss
)

// Damage is one finding of a recovery or a check: a place in the store that is
// not what was written there.
type Damage struct {
	Kind   DamageKind  `json:"kind"`
	State  DamageState `json:"state"`
	File   string      `json:"file"`            // below the store's directory
	Offset int64       `json:"offset"`          // of the first damaged byte
	Length int64       `json:"length"`          // bytes; 0 where that has no meaning
	Left   int64       `json:"left,omitempty"`  // of Length, bytes of records that are lost and of which nobody knows whose they were
	Roots  []b3.Root   `json:"roots,omitempty"` // objects that are known to be affected, the first MaxDamageRoots
	Reason string      `json:"reason"`          // a sentence without its end
	Found  time.Time   `json:"found"`           // to the second
	Ended  time.Time   `json:"ended,omitzero"`  // when it was no longer open
}

// Unknown reports whether records are lost of which nobody can tell whose they
// were: objects, pins or removals.
func (d Damage) Unknown() bool { return d.State == DamageOpen && d.Left > 0 }

// Same reports whether both findings are of the same place.
func (d Damage) Same(o Damage) bool {
	return d.Kind == o.Kind && d.File == o.File && d.Offset == o.Offset && d.Length == o.Length
}

// MaxDamageRoots is how many objects one finding names; it may concern more.
const MaxDamageRoots = 16
