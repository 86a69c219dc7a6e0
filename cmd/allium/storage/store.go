// Package storage has the commands about what a node's store holds: pin, gc, stat,
// verify and store.
package storage

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node"
	"allium/protocols/status"
)

// StoreCommand returns `allium store`.
func StoreCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "store",
		Short:   "List damage of the store, or rebuild its index",
		Example: "  allium store damage\n  allium store rebuild",
	}
	cmd.AddCommand(storeDamageCommand(a), storeRebuildCommand(a))
	return cmd
}

func storeRebuildCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild the store's index from its objects",
		Long: `Rebuild the index of the store if it is damaged or lost. The segments hold small
objects, pins and the history of large objects; the large objects are files in the
store's directory or objects in its bucket. Every object is read and hashed before
the new index names it. With the s3 backend the directory may be lost too.

What is damaged or missing is said, and the exit code is 65 then, as with "allium
verify --all".

No node may run. The old index stays until the new one is complete. An interrupted
rebuild can be run again.`,
		Example: "  allium store rebuild\n  allium --json store rebuild",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, home, err := a.Load()
			if err != nil {
				return err
			}
			report, finish := a.Progress("reading")
			defer finish()
			r, err := node.RebuildStore(cmd.Context(), home, cfg.Config, func(p node.RebuildProgress) {
				if report != nil {
					report(api.Progress{Objects: p.Objects, Bytes: p.Bytes})
				}
			})
			if err != nil {
				return err
			}
			finish()
			human := fmt.Sprintf("%s, %s and %s from %s", printable.Count(r.Objects, "object"),
				term.Bytes(r.Bytes), printable.Count(r.Pins, "pin"), printable.Count(r.Segments, "segment"))
			if r.Adopted > 0 {
				human += fmt.Sprintf("; %d in no segment", r.Adopted)
			}
			if err := a.Print(r, a.Loud(human)); err != nil {
				return err
			}
			return rebuiltDamaged(r)
		},
	}
}

// rebuiltDamaged returns the errors of a rebuild after which objects or the store are damaged, nil without any.
func rebuiltDamaged(r node.RebuildReport) error {
	var bad error
	if r.Corrupt > 0 {
		bad = failure.Found(status.Errorf(status.Corrupt,
			"the index is rebuilt, but %s; `allium verify --all` lists them, "+
				"and `allium verify --all --repair` fetches them again while the node runs",
			damagedOf(r.Corrupt, r.Objects)))
	}
	return errors.Join(bad, damageOpen(api.DamageReport{Open: r.Open, Unknown: r.Unknown}))
}
