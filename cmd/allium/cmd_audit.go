package main

import (
	"fmt"
	"path/filepath"
	"time"

	homedir "allium/node/home"

	"github.com/spf13/cobra"

	"allium/node"
)

func (a *app) auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "The log of what was changed and refused",
		Long:    "A node writes down every change that it is asked for over HTTP, before it makes it, and every request that it refuses. Each record names the hash of the one before.",
		Example: "  allium audit verify",
	}
	c.AddCommand(a.auditVerifyCommand())
	return c
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var head string
	c := &cobra.Command{
		Use: "verify [DIR | FILE…]", Short: "Prove that the audit log was not changed",
		Long: `Reads the audit log through, of this node or in a directory or files given, and
says how many records it has and the hash of the last. A record that was changed,
removed, repeated or moved, and an end that was cut off, exit with 65 and the line.
Who can write the files can write all of them anew: keep the hash elsewhere and
give it to --head later, and that shows too.`,
		Example: `  allium audit verify
  allium audit verify --head 9f86d081…
  allium audit verify /backup/audit-000001.jsonl /backup/audit-000002.jsonl`,
		Args: args(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				home, err := a.homeDir()
				if err != nil {
					return err
				}
				paths = []string{filepath.Join(home, homedir.AuditDir)}
			}
			rep, err := node.VerifyAudit(cmd.Context(), paths, head)
			if err != nil {
				return err
			}
			return a.print(rep, fmt.Sprintf("%d records, %d to %d, %s to %s: nothing was changed\nhead %s", rep.Records, rep.First, rep.Last,
				rep.From.Format(time.RFC3339), rep.To.Format(time.RFC3339), rep.Head))
		},
	}
	c.Flags().StringVar(&head, "head", "", "hash of a record that has to be in the log, in hex")
	return c
}
