package security

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/internal/printable"
	"allium/node"
	homedir "allium/node/home"
)

// AuditCommand returns `allium audit`.
func AuditCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "Check the log of changes and refusals",
		Long: `A node records every change that it is asked for over HTTP, before it makes it,
and every request that it refuses. Each record has the hash of the record before.`,
		Example: "  allium audit verify",
	}
	c.AddCommand(auditVerifyCommand(a))
	return c
}

func auditVerifyCommand(a *cli.App) *cobra.Command {
	var head string
	c := &cobra.Command{
		Use: "verify [DIR | FILE…]", Short: "Prove that the audit log was not changed",
		Long: `Read the audit log of this node, or the one in the directory or files given, and
print how many records it has and the hash of the last. If a record was changed,
removed, repeated or moved, or the end was cut off, the command prints the line and
exits with 65.

Somebody who can write the files can also write all of them again. To detect that,
keep the hash in another place and give it to --head later.`,
		Example: `  allium audit verify
  allium audit verify --head 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  allium audit verify /backup/audit-000001.jsonl /backup/audit-000002.jsonl`,
		Args: cli.Args(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				home, err := a.HomeDir()
				if err != nil {
					return err
				}
				paths = []string{filepath.Join(home, homedir.AuditDir)}
			}
			rep, err := node.VerifyAudit(cmd.Context(), paths, head)
			if err != nil {
				return err
			}
			return a.Print(rep, fmt.Sprintf("%s, %d to %d, %s to %s: nothing was changed\nhead %s",
				printable.Count(rep.Records, "record"), rep.First, rep.Last,
				rep.From.Format(time.RFC3339), rep.To.Format(time.RFC3339), rep.Head))
		},
	}
	c.Flags().StringVar(&head, "head", "", "hash of a record that the log must have, in hex (default: any)")
	return c
}
