package meta

import (
	"time"

	"allium/protocols/b3"
)

// DamageKind says which part of the store is damaged.
type DamageKind string

// The kinds of damage.
const (
	DamageLog    DamageKind = "log"    // bytes of a segment that are no record, or a missing or short segment
	DamageBody   DamageKind = "body"   // the body of a record; its intact header names the object
	DamageFile   DamageKind = "file"   // a missing file, or a file in obj/ or part/ that belongs to no object
	DamageNote   DamageKind = "note"   // the note file of a download or an upload
	DamageIndex  DamageKind = "index"  // the index, which is rebuilt from the log
	DamageFormat DamageKind = "format" // FORMAT, LOCK, or the list of damage itself
	DamageObject DamageKind = "object" // an object that failed a check; it is never in the list of damage
)

// DamageState is the state of one finding.
type DamageState string

// The states. A finding is open until all of the damage is accounted for.
const (
	DamageOpen     DamageState = "open"     // data may be lost
	DamageMended   DamageState = "mended"   // nothing was lost: the rest of the store has the same information
	DamageRepaired DamageState = "repaired" // peers returned what was lost
	DamageAccepted DamageState = "accepted" // an operator accepted the loss
)

// Damage is one finding of a recovery or a check: a place in the store whose
// content is not what was written there.
type Damage struct {
	Kind   DamageKind  `json:"kind"`
	State  DamageState `json:"state"`
	File   string      `json:"file"`   // path below the store's directory
	Offset int64       `json:"offset"` // of the first damaged byte
	Length int64       `json:"length"` // in bytes; 0 if it has no meaning
	// tells damage of a whole file from earlier damage of it; Unix nanoseconds
	Event  int64     `json:"event,omitempty"`
	Left   int64     `json:"left,omitempty"`  // bytes of Length whose lost records cannot be named
	Roots  []b3.Root `json:"roots,omitempty"` // objects known to be affected, at most MaxDamageRoots
	Reason string    `json:"reason"`          // a sentence without a full stop
	Found  time.Time `json:"found"`           // to the second
	Ended  time.Time `json:"ended,omitzero"`  // when it ceased to be open
}

// Unknown reports whether the finding is open and records were lost that cannot
// be named: objects, pins or removals.
func (d Damage) Unknown() bool { return d.State == DamageOpen && d.Left > 0 }

// Same reports whether both findings describe the same place and, of a whole file, the same event.
func (d Damage) Same(o Damage) bool {
	return d.Kind == o.Kind && d.File == o.File && d.Offset == o.Offset && d.Length == o.Length && d.Event == o.Event
}

// MaxDamageRoots is the maximum number of objects that one finding names. It may affect more.
const MaxDamageRoots = 16
