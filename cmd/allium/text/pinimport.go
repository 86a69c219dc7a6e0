package text

import (
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// What became of a pin of a list.
const (
	PinAdded  = "added"
	PinKnown  = "known"
	PinFailed = "failed"
)

// PinImported is the result of the import of one pin of a list.
type PinImported struct {
	Root  b3.Root        `json:"root"`
	Label string         `json:"label,omitempty"`
	State string         `json:"state"`
	Error *status.Report `json:"error,omitempty"`
}

// String is a line for people, empty for a pin that was set already; with quiet only the address.
func (p PinImported) String(quiet bool) string {
	switch {
	case p.State == PinKnown:
		return ""
	case quiet && p.State == PinFailed:
		return ""
	case quiet:
		return p.Root.String()
	}
	line := fmt.Sprintf("%-6s  %s", p.State, p.Root)
	if p.Label != "" {
		line += fmt.Sprintf("  %q", p.Label)
	}
	if p.Error != nil {
		line += "  " + p.Error.Message
	}
	return line
}

// PinsImported counts what became of a list of pins.
type PinsImported struct {
	Added   int `json:"added"`
	Known   int `json:"known"`
	Failed  int `json:"failed"`
	LeftOut int `json:"left_out,omitempty"` // set by other members of the cluster
}

// ImportSum is the last line of JSON, among lines about pins.
type ImportSum struct {
	Sum PinsImported `json:"sum"`
}

// String is the sum for people.
func (s PinsImported) String() string {
	line := fmt.Sprintf("%s added, %d known, %d failed", Plural(s.Added, "pin"), s.Known, s.Failed)
	if s.LeftOut > 0 {
		line += fmt.Sprintf("; %s of other members of the cluster left out", Plural(s.LeftOut, "pin"))
	}
	return line
}
