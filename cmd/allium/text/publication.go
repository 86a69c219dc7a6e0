package text

import (
	"fmt"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/internal/printable"
	"allium/protocols/b3"
)

// Publication is a path that was added, pinned and published.
type Publication struct {
	At        time.Time     `json:"at"`
	Root      b3.Root       `json:"root"`
	Path      string        `json:"path"`
	Files     int64         `json:"files"`  // at and below it
	Bytes     int64         `json:"bytes"`  // their content
	Hashed    int64         `json:"hashed"` // files that were read; the others have not changed
	Name      api.OwnName   `json:"name"`
	URL       string        `json:"url,omitempty"`       // where the node's gateway has it; empty: there is none
	Unchanged bool          `json:"unchanged,omitempty"` // the name stood for the address already
	Notes     *api.AddNotes `json:"notes,omitempty"`     // entries that were left out or renamed
	NewZone   string        `json:"new_zone,omitempty"`  // the zone that was made for it
	KeyFile   string        `json:"key_file,omitempty"`  // the private key of that
}

// String describes a publication in several lines. With quiet it is the whole name.
func (p Publication) String(quiet bool) string {
	if quiet {
		return p.Name.Name
	}
	s := p.Root.String() + " " + printable.Name(p.Path) + "\n" + Published(p.Name, false)
	if p.URL != "" {
		s += "\n" + "url         " + p.URL
	}
	return s + p.zone()
}

// zone says where the key of a new zone is.
func (p Publication) zone() string {
	if p.NewZone == "" {
		return ""
	}
	return "\na new zone was made for it; its private key is in " + p.KeyFile +
		"\nback it up: whoever has it can publish names in the zone, and without it nobody can"
}

// Line describes a publication in one line; a new zone is told in further ones. With quiet it is
// the address.
func (p Publication) Line(quiet bool) string {
	if quiet {
		return p.Root.String()
	}
	s := stamp(p.At) + "  " + p.Root.String() + "  "
	s += fmt.Sprintf("%s  number %d, %s, ", p.Name.Name, p.Name.Seq, limits.Bytes(p.Bytes).Human())
	if p.Unchanged {
		s += "published before"
	} else if p.Name.Peers > 0 {
		s += Plural(p.Name.Peers, "peer") + " took it"
	} else {
		s += "no peer took it yet"
	}
	return s + p.zone()
}
