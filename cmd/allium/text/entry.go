package text

import (
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/printable"
)

// Entry is an entry of a directory: size, address and name. If quiet, it is only
// the name.
func Entry(e api.Entry, quiet bool) string {
	name := printable.Name(e.Name)
	if quiet {
		return name
	}
	switch e.Kind {
	case api.Directory:
		name += "/"
	case api.Link:
		name += " -> " + printable.Name(e.Target)
	}
	bytes, root := "-", strings.Repeat(" ", len("b3:")+64)
	if e.Kind == api.File {
		bytes = size(e.Size)
	}
	if e.Kind != api.Link {
		root = e.Root.String()
	}
	return fmt.Sprintf("%10s  %s  %s", bytes, root, name)
}

// PinLine is a pin in a list: its address, its size, what Pin says of it, and the path from which its
// object was added, which may be empty.
func PinLine(p api.Pin, path string) string {
	bytes := size(p.Size)
	if p.AtLeast {
		bytes = "≥ " + bytes
	}
	line := fmt.Sprintf("%s  %10s  %s", p.Root, bytes, Pin(p))
	if path != "" {
		line += "  " + printable.Name(path)
	}
	return line
}

// ClusterCopies says in one line what a node keeps for other members of its cluster.
func ClusterCopies(objects, bytes int64) string {
	return fmt.Sprintf("%s, %s, for other members of the cluster; --all lists each", Plural(objects, "copy"), size(bytes))
}

// Pin describes a pin without its address.
func Pin(p api.Pin) string {
	s := "direct"
	if p.Recursive {
		s = "recursive"
	}
	if p.Label != "" {
		s += fmt.Sprintf(" %q", p.Label)
	}
	if p.Target != nil {
		s += " " + p.Target.String()
	}
	if !p.Since.IsZero() {
		s += " since " + p.Since.Local().Format(time.DateTime)
	}
	return s
}
