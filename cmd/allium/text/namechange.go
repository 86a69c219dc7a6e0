package text

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"allium/internal/printable"
	"allium/protocols/status"
)

// NameChange is something that happened to a name that is watched.
type NameChange struct {
	At      time.Time      `json:"at"`
	Key     string         `json:"key,omitempty"`    // the name as it was given
	Name    string         `json:"name,omitempty"`   // with the key of its zone
	Seq     uint64         `json:"seq,omitempty"`    // the number of its record
	Value   string         `json:"value,omitempty"`  // of its record: an address, a name or text
	Target  string         `json:"target,omitempty"` // the object that it leads to
	Path    string         `json:"path,omitempty"`   // below the target
	AgeMS   int64          `json:"age_ms,omitempty"` // milliseconds since the record was looked up
	Stale   bool           `json:"stale,omitempty"`  // the record is older than its TTL
	Error   *status.Report `json:"error,omitempty"`  // why the name stands for nothing
	Lost    int64          `json:"lost,omitempty"`   // events that the node could not tell; all names are asked for again
	Outcome status.Outcome `json:"-"`                // of Error
}

// Same reports whether c says nothing that old does not.
func (c NameChange) Same(old NameChange) bool {
	return old.Key == c.Key && old.Name == c.Name && old.Seq == c.Seq && old.Value == c.Value && old.Target == c.Target &&
		old.Path == c.Path && old.Stale == c.Stale && old.Outcome == c.Outcome
}

// String returns a line for a person. With quiet it is what the name leads to, and empty if that is
// nothing.
func (c NameChange) String(quiet bool) string {
	leads := printable.Name(cmp.Or(strings.TrimSuffix(c.Target+"/"+c.Path, "/"), c.Value))
	switch {
	case quiet && c.Error != nil, quiet && c.Lost > 0:
		return ""
	case quiet:
		return leads
	case c.Lost > 0:
		return fmt.Sprintf("%s  the node lost %s; every name is asked for again", stamp(c.At), Plural(c.Lost, "event"))
	case c.Error != nil:
		return fmt.Sprintf("%s  %s  %s: %s", stamp(c.At), printable.Name(c.Key), c.Outcome, printable.Text(c.Error.Message))
	}
	s := fmt.Sprintf("%s  %s  number %d  %s", stamp(c.At), printable.Name(c.Key), c.Seq, printable.Name(c.Value))
	if leads != printable.Name(c.Value) {
		s += "  " + leads
	}
	s += "  " + (time.Duration(c.AgeMS) * time.Millisecond).Round(time.Second).String() + " old"
	if c.Stale {
		s += ", stale"
	}
	return s
}

// stamp is a time for a person, to the second.
func stamp(t time.Time) string { return t.Local().Format(time.DateTime) }
