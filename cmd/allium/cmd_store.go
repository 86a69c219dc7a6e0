package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "store",
		Short:   "List the damage of the store, or make its index anew",
		Example: "  allium store damage\n  allium store rebuild",
	}
	cmd.AddCommand(a.storeDamageCommand(), a.storeRebuildCommand())
	return cmd
}

func (a *app) storeRebuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Make the store's index anew from its objects",
		Long: `Rebuild makes the index of the store anew, when it is damaged or lost: from the
segments, which hold small objects, pins and what became of every large object,
and from the large objects themselves, in the store's directory or in its
bucket. Every object is read and hashed before it is entered. With the s3
backend the directory may be lost too.

No node may run. The old index stays until the new one is complete; a rebuild
that was cut off is run again.`,
		Example: "  allium store rebuild\n  allium --json store rebuild",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, home, err := a.load(nil)
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
			human := fmt.Sprintf("%d objects, %s and %d pins from %d segments", r.Objects, limits.Bytes(r.Bytes).Human(), r.Pins, r.Segments)
			if r.Adopted > 0 {
				human += fmt.Sprintf("; %d that no segment names", r.Adopted)
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
