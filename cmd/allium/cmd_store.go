package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/text"
	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "store",
		Short:   "List damage of the store, or rebuild its index",
		Example: "  allium store damage\n  allium store rebuild",
	}
	cmd.AddCommand(a.storeDamageCommand(), a.storeRebuildCommand())
	return cmd
}

func (a *app) storeRebuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild the store's index from its objects",
		Long: `Rebuild the index of the store if it is damaged or lost. The segments hold small
objects, pins and the history of large objects; the large objects are files in the
store's directory or objects in its bucket. Every object is read and hashed before
the new index names it. With the s3 backend the directory may be lost too.

No node may run. The old index stays until the new one is complete. An interrupted
rebuild can be run again.`,
		Example: "  allium store rebuild\n  allium --json store rebuild",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, home, err := a.load()
			if err != nil {
				return err
			}
			report, finish := a.progress("reading")
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
			human := fmt.Sprintf("%s, %s and %s from %s", text.Plural(r.Objects, "object"),
				limits.Bytes(r.Bytes).Human(), text.Plural(r.Pins, "pin"), text.Plural(r.Segments, "segment"))
			if r.Adopted > 0 {
				human += fmt.Sprintf("; %d in no segment", r.Adopted)
			}
			if bad := r.Damaged + r.Missing; bad > 0 {
				human += fmt.Sprintf("; %d damaged or missing: `allium verify --all` lists them", bad)
			}
			if a.quiet {
				human = ""
			}
			return a.print(r, human)
		},
	}
}
