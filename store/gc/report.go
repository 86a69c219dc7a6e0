package gc

import (
	"fmt"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Options configure a collection.
type Options struct {
	All  bool // remove everything unprotected; otherwise only down to the low-water mark
	Dry  bool // remove nothing, and report what would be removed
	Fast bool // work without rests

	// Progress is called often with the report so far. Removal is called for each object that
	// was removed, or would be in a dry run, and ends the collection by returning false.
	// Either may be nil. The goroutine of the collection calls both.
	Progress func(Report)
	Removal  func(Object) bool
}

// Class is why a collection keeps an object, or that it does not.
type Class string

// The classes, in the order they are looked at.
const (
	Pinned  Class = "pinned"  // by its own pin or one above it
	Leased  Class = "leased"  // being read, put or downloaded
	Recent  Class = "recent"  // used since the collection began
	Held    Class = "held"    // used since a Hold began: an add or a fetch has no pin yet
	Cache   Class = "cache"   // nothing holds it, and its space is not needed
	Removed Class = "removed" // nothing held it
)

// Object is an object that a collection removes.
type Object struct {
	Root    b3.Root
	Size    int64     // bytes
	Used    time.Time // last, to the second
	Partial bool      // an unfinished download; Size is what is stored of it
}

// Damage is a directory below a recursive pin that cannot be read, or a pinned object that
// is lost. Since what it names is unknown, nothing is removed.
type Damage struct {
	Pin    meta.Pin
	Node   b3.Root
	Path   string // names from the pin to the node, joined with "/"
	Absent bool   // Node is the pinned object itself, and it is missing
}

// maxDamages bounds the damage that a report lists.
const maxDamages = 16

// Report is the result of a collection, or the expected result in a dry run.
type Report struct {
	Classes map[Class]meta.Count // in a dry run, Removed is what would be removed
	Seen    meta.Count           // all objects
	Before  Space                // when it began
	Need    meta.Count           // what had to be removed for the low-water mark; 0 when below it, and with Options.All
	Nodes   int64                // directories read below pins
	Damaged []Damage             // why nothing was removed; at most 16
	Open    int                  // open damage of the store, another reason why nothing was removed
	Took    time.Duration
}

// String describes the damage and what to do about it.
func (d Damage) String() string {
	where := d.Pin.Root.String()
	if d.Path != "" {
		where += "/" + d.Path
	}
	if d.Absent {
		return fmt.Sprintf("%s is pinned (%s) and lost, so what it keeps is unknown; fetch it again or remove the pin",
			d.Node, describe(d.Pin))
	}
	return fmt.Sprintf("the directory %s (%s, %s) is damaged, so what it keeps is unknown; "+
		"fetch it again or remove the pin", d.Node, where, describe(d.Pin))
}

// err returns the error for a question whether root is protected, which the damage makes
// unanswerable.
func (d Damage) err(root b3.Root) error {
	return status.Errorf(status.Conflict, "cannot tell whether %s is kept: %s", root, d)
}

// Err returns conflict when damage kept the collection from removing anything, else nil.
func (r Report) Err() error {
	if !r.Blocked() {
		return nil
	}
	return status.Errorf(status.Conflict, "nothing was removed: %s", r.Reason())
}

// Blocked reports whether damage keeps the collection from removing anything.
func (r Report) Blocked() bool { return r.Open > 0 || len(r.Damaged) > 0 }

// Reason describes the damage that keeps the collection from removing anything, and what to
// do. It is empty when there is none.
func (r Report) Reason() string {
	switch {
	case r.Open > 0:
		return BlockedBy(r.Open)
	case len(r.Damaged) > 0:
		return r.Damaged[0].String()
	}
	return ""
}

// fellShort reports whether less was removed than had to be.
func (r *Report) fellShort() bool {
	n := r.Classes[Removed]
	return n.Objects < r.Need.Objects || n.Bytes < r.Need.Bytes
}

// BlockedBy explains that open damage keeps everything from being removed.
func BlockedBy(open int) string {
	what := "1 finding is"
	if open > 1 {
		what = fmt.Sprintf("%d findings are", open)
	}
	return fmt.Sprintf("the store is damaged (%s open), so what is kept is not known for sure; "+
		"`allium store damage` lists it and says what to do", what)
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
