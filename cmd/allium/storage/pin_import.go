package storage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/printable"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Bounds of the list that pin import reads.
const (
	maxPinsFile = 64 << 20 // bytes
	maxPinsRead = 1 << 18  // pins
)

func pinImportCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Set the pins of a list that \"pin ls --json\" wrote",
		Long: `Set the pins of a list that "allium pin ls --json" wrote: kind, label and target. A
running node fetches what is missing; without one only what is stored is pinned. - is
standard input. The list may have 262,144 pins and 64 MiB.

A pin that is set already stays as it is, so the command can be run again. What other
members of the cluster had pinned is left out: they set it again. The last line says
how many pins were added, known and failed; if one failed, the exit code is not 0.`,
		Example: `  allium pin ls --json > pins.json
  allium pin import pins.json
  ssh old allium pin ls --json | allium pin import -`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			pins, err := readPins(cmd.Context(), a, arg[0])
			if err != nil {
				return err
			}
			return a.WithStore(cmd.Context(), func(s api.Store) error { return importPins(cmd.Context(), a, s, pins) })
		},
	}
	source.TimeoutFlag(cmd)
	return cmd
}

// readPins reads a list of pins; - is standard input.
func readPins(ctx context.Context, a *cli.App, name string) ([]api.Pin, error) {
	in, where := a.Stdin, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in, where = f, name
	}
	all, err := io.ReadAll(io.LimitReader(term.Interruptible(ctx, in), maxPinsFile+1))
	if err != nil {
		return nil, failure.In(where, err)
	}
	if len(all) > maxPinsFile {
		return nil, failure.NewUsage("split it", "%s has more than %d MiB", where, maxPinsFile>>20)
	}
	return parsePins(where, all)
}

// parsePins reads one pin from each line of a list, but for empty ones.
func parsePins(where string, all []byte) ([]api.Pin, error) {
	var pins []api.Pin
	n := 0
	for line := range bytes.Lines(all) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var p api.Pin
		err := json.Unmarshal(line, &p)
		switch {
		case err != nil:
			return nil, failure.NewUsage("give what `allium pin ls --json` writes",
				"line %d of %s is no pin: %v", n, where, err)
		case p.Root.IsZero():
			return nil, failure.NewUsage("give what `allium pin ls --json` writes",
				"line %d of %s names no object", n, where)
		case len(pins) == maxPinsRead:
			return nil, failure.NewUsage("split it", "%s has more than %d pins", where, maxPinsRead)
		}
		if err := meta.CheckLabel(p.Label); err != nil {
			return nil, failure.In(fmt.Sprintf("line %d of %s", n, where), err)
		}
		pins = append(pins, p)
	}
	return pins, nil
}

// importPins sets pins, and says of each what became of it. It goes on after one that failed, but for
// one that fails because the command or the node ends.
func importPins(ctx context.Context, a *cli.App, s api.Store, pins []api.Pin) error {
	report, finish := a.Progress("fetching")
	defer finish()
	var sum pinsImported
	var first error
	for _, p := range pins {
		if meta.OfCluster(p.Label) {
			sum.LeftOut++
			continue
		}
		one := pinImported{Root: p.Root, Label: p.Label, State: pinKnown}
		known, err := importPin(ctx, s, p, report)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, client.ErrNotRunning) && sum.Added+sum.Known+sum.Failed == 0:
			return err
		case errors.Is(err, client.ErrNotRunning):
			return status.Errorf(status.NotReady, "the node stopped after %s; start it and run the command again",
				printable.Count(sum.Added+sum.Known+sum.Failed, "pin"))
		case err != nil:
			sum.Failed++
			first = cmp.Or(first, err)
			failed := status.ReportOf(err)
			failed.Reason = failure.OutcomeOf(err).String()
			one.State, one.Error = pinFailed, &failed
		case known:
			sum.Known++
		default:
			sum.Added++
			one.State = pinAdded
		}
		if err := a.Print(one, one.String(a.Quiet)); err != nil {
			return err
		}
	}
	finish()
	if err := a.Print(importSum{Sum: sum}, a.Loud(sum.String())); err != nil || first == nil {
		return err
	}
	return failure.Found(status.Errorf(failure.OutcomeOf(first),
		"%s of %d could not be set; run it again to try them again", printable.Count(sum.Failed, "pin"),
		sum.Added+sum.Known+sum.Failed))
}

// importPin sets a pin unless it is there, which is known. A node fetches what is missing first.
func importPin(ctx context.Context, s api.Store, p api.Pin, report api.ProgressFunc) (known bool, err error) {
	key := p.Root.String()
	if has, err := hasPin(ctx, s, p); has || err != nil {
		return has, err
	}
	if n, ok := s.(api.Node); ok {
		if _, err := n.Fetch(ctx, key, report); err != nil {
			return false, err
		}
	}
	_, err = s.Pin(ctx, key, api.PinOptions{Recursive: p.Recursive, Label: p.Label, Target: p.Target})
	return false, err
}

// hasPin reports whether a store has a pin that keeps at least what p keeps.
func hasPin(ctx context.Context, s api.Store, p api.Pin) (bool, error) {
	st, err := s.Stat(ctx, p.Root.String())
	if status.Of(err) == status.NotFound {
		return false, nil
	}
	for _, old := range st.Pins {
		if old.Label == p.Label && (old.Recursive || !p.Recursive) &&
			(p.Target == nil || old.Target != nil && *old.Target == *p.Target) {
			return true, err
		}
	}
	return false, err
}

// The results of importing a pin of a list.
const (
	pinAdded  = "added"
	pinKnown  = "known"
	pinFailed = "failed"
)

// pinImported is the result of the import of one pin of a list.
type pinImported struct {
	Root  b3.Root        `json:"root"`
	Label string         `json:"label,omitempty"`
	State string         `json:"state"`
	Error *status.Report `json:"error,omitempty"`
}

// String is a line for people, empty for a pin that was set already; with quiet only the address.
func (p pinImported) String(quiet bool) string {
	switch {
	case p.State == pinKnown:
		return ""
	case quiet && p.State == pinFailed:
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

// pinsImported counts what became of a list of pins.
type pinsImported struct {
	Added   int `json:"added"`
	Known   int `json:"known"`
	Failed  int `json:"failed"`
	LeftOut int `json:"left_out,omitempty"` // set by other members of the cluster
}

// importSum is the last line of JSON, among lines about pins.
type importSum struct {
	Sum pinsImported `json:"sum"`
}

// String is the sum for people.
func (s pinsImported) String() string {
	line := fmt.Sprintf("%s added, %d known, %d failed", printable.Count(s.Added, "pin"), s.Known, s.Failed)
	if s.LeftOut > 0 {
		line += fmt.Sprintf("; %s of other members of the cluster left out", printable.Count(s.LeftOut, "pin"))
	}
	return line
}
