package naming

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/api/client/namewatch"
	"allium/internal/printable"
	"allium/protocols/status"
)

func nameWatchCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "watch NAME…",
		Short: "Print each change of what names stand for",
		Long: `Print what names stand for, and again each time that this changes, until the command
is interrupted. Each line has the number of the record, its value, and how long ago the
node looked it up. A name that is stale, was withdrawn, has no record, or of which two
records contradict each other is a line too.

The node follows the names as long as the command runs, so that it hears of a new record
when peers announce it. An announcement can be lost. The command therefore asks again
when the TTL of the record ends. It waits for a node that restarts, and says when the
node could not tell it of some events.`,
		Example: `  allium name watch blog.site
  allium name watch --json blog.site motd.site`,
		Args: cli.Args(cobra.RangeArgs(1, api.MaxEventNames)),
		RunE: func(cmd *cobra.Command, keys []string) error {
			return a.Watch(cmd.Context(), func(ctx context.Context, n *client.Client) error {
				for _, key := range keys {
					if err := checkName(ctx, n, key); err != nil {
						return err
					}
				}
				updates, err := namewatch.Watch(ctx, n, keys)
				if err != nil {
					return err
				}
				last := map[string]nameChange{}
				for u := range updates {
					c := newNameChange(u)
					if u.Lost == 0 && c.Same(last[u.Key]) {
						continue
					}
					last[u.Key] = c
					if err := a.Print(c, c.String(a.Quiet)); err != nil {
						return err
					}
				}
				return ctx.Err()
			})

		},
	}
}

// checkName returns an error if key, NAME or NAME/path, is not spelled as a name, or its zone is not known.
// Nobody needs to have published the name.
func checkName(ctx context.Context, n *client.Client, key string) error {
	name, _, _ := strings.Cut(key, "/")
	_, err := n.ExpandName(ctx, name)
	return failure.In(name, err)
}

// newNameChange returns an update as it is printed.
func newNameChange(u namewatch.Update) nameChange {
	c := nameChange{At: time.Now().UTC().Truncate(time.Millisecond), Key: u.Key, Lost: u.Lost}
	if u.Err != nil {
		rep := status.ReportOf(u.Err)
		c.Error, c.Outcome = &rep, status.Of(u.Err)
	}
	if len(u.Answer.Chain) > 0 {
		first := u.Answer.Chain[0]
		c.Name, c.Seq, c.Value = first.Name, first.Seq, first.Value
	}
	if u.Err == nil && u.Lost == 0 {
		c.AgeMS, c.Stale, c.Path = u.Answer.AgeMS, u.Answer.Stale, u.Answer.Path
		if !u.Answer.Target.IsZero() {
			c.Target = u.Answer.Target.String()
		}
	}
	return c
}

// nameChange is something that happened to a name that is watched.
type nameChange struct {
	At     time.Time      `json:"at"`
	Key    string         `json:"key,omitempty"`    // the name as it was given
	Name   string         `json:"name,omitempty"`   // with the key of its zone
	Seq    uint64         `json:"seq,omitempty"`    // the number of its record
	Value  string         `json:"value,omitempty"`  // of its record: an address, a name or text
	Target string         `json:"target,omitempty"` // the object that it leads to
	Path   string         `json:"path,omitempty"`   // below the target
	AgeMS  int64          `json:"age_ms,omitempty"` // milliseconds since the record was looked up
	Stale  bool           `json:"stale,omitempty"`  // the record is older than its TTL
	Error  *status.Report `json:"error,omitempty"`  // why the name stands for nothing
	// events that the node could not tell; all names are asked for again
	Lost    int64          `json:"lost,omitempty"`
	Outcome status.Outcome `json:"-"` // of Error
}

// Same reports whether c says nothing that old does not.
func (c nameChange) Same(old nameChange) bool {
	return old.Key == c.Key && old.Name == c.Name && old.Seq == c.Seq &&
		old.Value == c.Value && old.Target == c.Target &&
		old.Path == c.Path && old.Stale == c.Stale && old.Outcome == c.Outcome
}

// String returns a line for a person. With quiet it is what the name leads to, and empty if that is
// nothing.
func (c nameChange) String(quiet bool) string {
	leads := printable.Name(cmp.Or(strings.TrimSuffix(c.Target+"/"+c.Path, "/"), c.Value))
	switch {
	case quiet && c.Error != nil, quiet && c.Lost > 0:
		return ""
	case quiet:
		return leads
	case c.Lost > 0:
		return fmt.Sprintf("%s  the node lost %s; every name is asked for again",
			term.Stamp(c.At), printable.Count(c.Lost, "event"))
	case c.Error != nil:
		return fmt.Sprintf("%s  %s  %s: %s", term.Stamp(c.At), printable.Name(c.Key), c.Outcome,
			printable.Text(c.Error.Message))
	}
	s := fmt.Sprintf("%s  %s  number %d  %s", term.Stamp(c.At), printable.Name(c.Key), c.Seq, printable.Name(c.Value))
	if leads != printable.Name(c.Value) {
		s += "  " + leads
	}
	s += "  " + (time.Duration(c.AgeMS) * time.Millisecond).Round(time.Second).String() + " old"
	if c.Stale {
		s += ", stale"
	}
	return s
}
