package text

import (
	"fmt"
	"time"

	"allium/internal/printable"
	"allium/node/files/follow"
)

// DirUpdate is a directory that was brought to what a name says.
type DirUpdate struct {
	At   time.Time `json:"at"`
	Name string    `json:"name"` // as it was given
	Seq  uint64    `json:"seq"`  // the number of its record
	Key  string    `json:"key"`  // what it leads to: an address, and the path below it
	Dir  string    `json:"dir"`
	follow.Stats
}

// Line describes it in one line; what was set aside follows in further ones. With quiet it is the address.
func (f DirUpdate) Line(quiet bool) string {
	if quiet {
		return printable.Name(f.Key)
	}
	s := fmt.Sprintf("%s  %s  number %d  %s  %d kept, %d written (%s), %d removed", stamp(f.At), printable.Name(f.Name),
		f.Seq, printable.Name(f.Key), f.Kept, f.Written, size(f.Bytes), f.Removed)
	if f.Left > 0 {
		s += ", " + Plural(f.Left, "edited file") + " left that it does not have"
	}
	for _, a := range f.Aside {
		s += "\n  set aside: " + printable.Name(a.Path) + " is now " + printable.Name(a.As)
	}
	if more := f.AsideCount - int64(len(f.Aside)); more > 0 {
		s += fmt.Sprintf("\n  and %d more", more)
	}
	return s
}
