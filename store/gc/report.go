package gc

import (
	"fmt"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Options say what a collection does.
type Options struct {
	All  bool // remove everything that nothing holds; else only what the low-water mark asks for
	Dry  bool // remove nothing, say what would be
	Fast bool // take no rests

	// Progress is told how far it is, often; nil for nobody. Removal is told
	// each object that was removed, or would be, and may end the collection by
	// returning false. Both are called by the collecting goroutine.
	Progress func(Report)
	Removal  func(Object) bool
}

// Class is why a collection keeps an object, or that it does not.
type Class string

// The classes, in the order they are looked at.
const (
	Pinned  Class = "pinned"  // by a pin of its own or one above it
	Leased  Class = "leased"  // being read, put or downloaded
	Recent  Class = "recent"  // used since the collection began
	Held    Class = "held"    // used since a Hold began: an add or a fetch has no pin yet
	Cache   Class = "cache"   // nothing holds it, and its space is not needed
	Removed Class = "removed" // nothing held it
)

// Object is one object that a collection removes.
type Object struct {
	Root    b3.Root
	Size    int64     // bytes
	Used    time.Time // last, to the second
	Partial bool      // a download that was left half done; Size is what is here of it
}

// Damage is a directory below a recursive pin that cannot be read, or a pinned
// object that is lost: what it names is unknown, so nothing is removed.
type Damage struct {
	Pin    meta.Pin
	Node   b3.Root
	Path   string // from the pin to the node, of names
	Absent bool   // Node is the pinned object itself, and it is not here
}

// maxDamages bounds what a report lists.
const maxDamages = 16

// Report is what a collection did, or would do.
type Report struct {
	Classes map[Class]meta.Count // Removed: in a dry run what would be
	Seen    meta.Count           // what was looked at
	Before  Space                // as it began
	Need    meta.Count           // to be removed for the low-water mark; 0 when below, and of All
	Nodes   int64                // directories read below pins
	Damaged []Damage             // why nothing was removed; at most 16
	Open    int                  // open damage of the store (Store.Damage), another reason why nothing was removed
	Took    time.Duration
}

// String says which directory it is and what would help.
func (d Damage) String() string {
	where := d.Pin.Root.String()
	if d.Path != "" {
		where += "/" + d.Path
	}
	if d.Absent {
		return fmt.Sprintf("%s is pinned (%s) and lost, so what it keeps is unknown; fetch it again or remove the pin", d.Node, describe(d.Pin))
	}
	return fmt.Sprintf("the directory %s (%s, %s) is damaged, so what it keeps is unknown; fetch it again or remove the pin", d.Node, where, describe(d.Pin))
}

// err is why it cannot be told whether root is held.
func (d Damage) err(root b3.Root) error {
	return status.Errorf(status.Conflict, "store: whether %s is kept cannot be told: %s", root, d)
}

// Err is conflict when damage kept the collection from removing anything.
func (r Report) Err() error {
	if !r.Blocked() {
		return nil
	}
	return status.Errorf(status.Conflict, "nothing was removed: %s", r.Reason())
}

// Blocked reports whether damage keeps the collection from removing anything.
func (r Report) Blocked() bool { return r.Open > 0 || len(r.Damaged) > 0 }

// Reason says which damage keeps the collection from removing anything, and
// what to do; "" where none does.
func (r Report) Reason() string {
	switch {
	case r.Open > 0:
		return BlockedBy(r.Open)
	case len(r.Damaged) > 0:
		return r.Damaged[0].String()
	}
	return ""
}

// short reports whether less was removed than had to be.
func (r *Report) short() bool {
	n := r.Classes[Removed]
	return n.Objects < r.Need.Objects || n.Bytes < r.Need.Bytes
}

// BlockedBy says why open damage keeps everything from being removed.
func BlockedBy(open int) string {
	what := "1 finding is"
	if open > 1 {
		what = fmt.Sprintf("%d findings are", open)
	}
	return fmt.Sprintf("the store is damaged (%s open), so what is kept is not known for sure; `allium store damage` lists it and says what to do", what)
}

func describe(p meta.Pin) string {
	kind := "pinned"
	if p.Recursive {
		kind = "pinned recursively"
	}
	if p.Label == "" {
		return fmt.Sprintf("%s %s", p.Root, kind)
	}
	return fmt.Sprintf("%s %s as %q", p.Root, kind, p.Label)
}
