package storage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

func storeDamageCommand(a *cli.App) *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "damage",
		Short: "List the damage of the store, or accept what is lost",
		Long: `List every place in the store whose bytes are not those that were written: what is
damaged, what was lost by it, and the state. This works with a running node and
without one. The exit code is 65 while damage is open.

  open      something may be lost: nothing is evicted, and the node fetches
            lost objects below its pins from its peers
  mended    nothing was lost: the rest of the store had it
  repaired  peers have sent back what was lost
  accepted  an operator accepted the loss

An object that failed a check is listed too, as open, until a whole copy has replaced
it or it was removed. It stops no evictions. A running node serves it from a peer that
has it, and puts that copy in its place, on the disk or in the bucket.

While it is not known which records were lost, nothing is added, uploaded or pinned
(the gate store_integrity). That ends when peers have sent back as many bytes as were
lost, or with --accept. --accept changes no object: lost objects stay lost, and
evictions and writes continue.`,
		Example: "  allium store damage\n  allium --json store damage\n  allium store damage --accept",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithStore(cmd.Context(), func(s api.Store) error {
				if accept {
					r, err := s.AcceptDamage(cmd.Context())
					if err != nil {
						return err
					}
					return a.Print(r, damagesText(r, "no damage was open"))
				}
				r, err := s.Damage(cmd.Context())
				if err != nil {
					return err
				}
				if err := a.Print(r, damagesText(r, "no damage was found")); err != nil {
					return err
				}
				return damageOpen(r)
			})
		},
	}
	cmd.Flags().BoolVar(&accept, "accept", false, "accept all open damage: lost objects stay lost")
	return cmd
}

// damageOpen returns the error of open damage, which says what to do, and nil if
// none is open.
func damageOpen(r api.DamageReport) error {
	if r.Open == 0 && r.Objects == 0 {
		return nil
	}
	if r.Open == 0 {
		return failure.Found(status.Errorf(status.Corrupt, "the store has %s; let the node run until it has fetched "+
			"them from its peers, or fetch them again with `allium verify --repair`",
			printable.Count(r.Objects, "damaged object")))
	}
	what := printable.Count(r.Open, "open finding")
	if r.Objects > 0 {
		what += ", and " + printable.Count(r.Objects, "damaged object")
	}
	if r.Unknown > 0 {
		what += fmt.Sprintf(", and for %d it is not known what was lost, so nothing is added or pinned", r.Unknown)
	}
	return failure.Found(status.Errorf(status.Corrupt, "the store is damaged: %s; "+
		"let the node run until it has fetched the lost objects from its peers. `allium verify --all` lists what is "+
		"missing, and `allium store damage --accept` accepts the loss", what))
}

// damagesText lists the findings of r, or is none if there are none.
func damagesText(r api.DamageReport, none string) string {
	if len(r.Damage) == 0 {
		return none
	}
	lines := make([]string, 0, len(r.Damage))
	for _, d := range r.Damage {
		lines = append(lines, damageText(d))
	}
	return strings.Join(lines, "\n")
}
