package reference

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/protocols/status"
)

// DocsCommand writes docs/reference from the code. The help does not list it: it is
// for those who change the program.
func DocsCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:     "docs DIR",
		Short:   "Write the reference pages",
		Example: "  allium docs docs/reference --check",
		Hidden:  true,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, dir []string) error {
			pages, err := Pages(cmd.Context(), cmd.Root())
			if err != nil {
				return err
			}
			for name, page := range pages {
				file := filepath.Join(dir[0], name)
				if check {
					if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, page) {
						return failure.Found(status.Errorf(status.Conflict,
							"%s differs from the code; run `make docs`", file))
					}
					continue
				}
				if err := cli.CheckOutput(dir[0]); err != nil {
					return err
				}
				if err := os.MkdirAll(dir[0], 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(file, page, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "fail when a page differs instead of writing it")
	return cmd
}
