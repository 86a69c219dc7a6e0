package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/status"
)

func (a *app) storeDamageCommand() *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "damage",
		Short: "List the damage of the store, or accept what is lost",
		Long: `Damage lists every place in the store that was found not to be what was written
there: what is damaged, what is lost by that, and what became of it. It works
with a running node and without one, and exits 65 while damage is open.

  open      something may be lost: nothing is evicted, and the node fetches
            what its pins promise and is lost from its peers
  mended    nothing was lost: it could be told from what is left
  repaired  what was lost is back, from peers
  accepted  somebody accepted the loss

While it is not known which records were lost, nothing is added, uploaded or
pinned (the gate store_integrity). That ends when peers have given back as much
as is lost, or with --accept, which changes no object: what is lost stays lost,
evictions and writes go on.`,
		Example: "  allium store damage\n  allium --json store damage\n  allium store damage --accept",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s api.Store) error {
				if accept {
					r, err := s.AcceptDamage(cmd.Context())
					if err != nil {
						return err
					}
					return a.print(r, damageText(r, "no damage was open"))
				}
				r, err := s.Damage(cmd.Context())
				if err != nil {
					return err
				}
				if err := a.print(r, damageText(r, "no damage was found")); err != nil {
					return err
				}
				return damageOpen(r)
			})
		},
	}
	cmd.Flags().BoolVar(&accept, "accept", false, "end all open damage: what is lost is lost (default false)")
	return cmd
}

// damageOpen is the error of damage that is open, which says what to do; nil
// where none is.
func damageOpen(r api.DamageReport) error {
	if r.Open == 0 {
		return nil
	}
	what := "1 finding is"
	if r.Open > 1 {
		what = fmt.Sprintf("%d findings are", r.Open)
	}
	fix := "let the node run until it has fetched what is lost from its peers, or see `allium verify --all` and accept what cannot be had with `allium store damage --accept`"
	if r.Unknown > 0 {
		return status.Errorf(status.Corrupt, "the store is damaged: %s open, and of %d nobody can tell what was lost, so nothing is added or pinned; %s", what, r.Unknown, fix)
	}
	return status.Errorf(status.Corrupt, "the store is damaged: %s open; %s", what, fix)
}

func damageText(r api.DamageReport, none string) string {
	if len(r.Damage) == 0 {
		return none
	}
	lines := make([]string, 0, len(r.Damage))
	for _, d := range r.Damage {
		lines = append(lines, damageLine(d))
	}
	return strings.Join(lines, "\n")
}

// damageLine is one finding for people.
func damageLine(d api.Damage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-6s %s", d.State, d.Kind, d.File)
	if d.Length > 0 {
		fmt.Fprintf(&b, " %d+%d", d.Offset, d.Length)
	}
	fmt.Fprintf(&b, "  found %s  %s", d.Found.Local().Format("2006-01-02 15:04"), d.Cause)
	if d.Left > 0 {
		fmt.Fprintf(&b, "; %s of records are lost, and nobody knows whose", limits.Bytes(d.Left).Human())
	}
	for i, root := range d.Roots {
		if i == 0 {
			b.WriteString("; affects")
		}
		address := root.String()
		b.WriteString(" " + address[:7] + "…" + address[len(address)-4:])
	}
	return b.String()
}
