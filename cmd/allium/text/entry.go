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

// PinLine is a pin in a list: its address, its size and what Pin says of it.
func PinLine(p api.Pin) string {
	bytes := size(p.Size)
	if p.AtLeast {
		bytes = "≥ " + bytes
	}
	return fmt.Sprintf("%s  %10s  %s", p.Root, bytes, Pin(p))
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
