package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node"
)

// SeedsCommand returns `allium seeds`.
func SeedsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seeds",
		Short: "List the seeds, and sign or inspect seed manifests",
		Long: `List the peers through which the node finds its network: where each seed is
configured, whether it is connected, and how many peers it gave.

Seeds come from dht.bootstrap and from a manifest: a list in a file
(dht.seed_manifest) that an authority (dht.seed_authorities) signs for a time.
A new file takes effect within minutes, without a restart.`,
		Example: `  allium seeds
  allium seeds --json
  allium seeds sign --key ~/authority/identity.key -o seeds.pem /dns4/a.example/tcp/4901/p2p/$PEER
  allium seeds inspect seeds.pem`,
		Args: cli.NoArgs,
		RunE: a.OnNode(func(ctx context.Context, n api.Node, _ []string) error {
			list, err := n.Seeds(ctx)
			if err != nil {
				return err
			}
			return a.Print(list, seedsText(list, time.Now(), a.Quiet))
		}),
	}
	cmd.AddCommand(seedsSignCommand(a), seedsInspectCommand(a))
	return cmd
}

func seedsSignCommand(a *cli.App) *cobra.Command {
	var key, output string
	var days int
	var seq uint64
	cmd := &cobra.Command{
		Use:   "sign --key FILE MULTIADDR…",
		Short: "Sign a list of seeds",
		Long: `Sign a list of seeds with the key of an authority. "allium init" makes such a key
(identity.key); choose one that no node runs with. Nodes accept the manifest if
dht.seed_authorities has the authority's peer id.

A manifest is valid until it expires, or until one with a higher sequence number
replaces it. It may have at most 256 seeds with at most 16 addresses each.`,
		Example: `  allium --home ~/authority init
  allium seeds sign --key ~/authority/identity.key --days 90 -o seeds.pem /dns4/a.example/tcp/4901/p2p/$PEER`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, addrs []string) error {
			if key == "" {
				return failure.NewUsage("name the file with the authority's key", "--key is missing")
			}
			if err := cli.CheckDays(days); err != nil {
				return err
			}
			now := time.Now()
			if seq == 0 {
				seq = uint64(now.UnixMilli())
			}
			manifest, signed, err := node.SignSeeds(key, addrs, seq, now.AddDate(0, 0, days))
			if err != nil {
				return err
			}
			human := strings.TrimSuffix(string(manifest), "\n")
			if output != "-" {
				if err := cli.ReplaceFile(output, manifest); err != nil {
					return failure.In("--output", err)
				}
				human = ""
				if !a.Quiet {
					human = signedSeedsText(signed) + "\nwritten to " + output
				}
			}
			return a.Print(struct {
				node.SignedSeeds
				Manifest string `json:"manifest"`
			}{signed, string(manifest)}, human)
		},
	}
	f := cmd.Flags()
	f.StringVar(&key, "key", "", "file with the key of the authority (required)")
	f.IntVar(&days, "days", 90, "days until the manifest expires, 1 to 365")
	f.Uint64Var(&seq, "seq", 0,
		"sequence number; nodes take the manifest with the higher one (default the time in milliseconds)")
	f.StringVarP(&output, "output", "o", "-", "file to write or replace; - is standard output")
	return cmd
}

func seedsInspectCommand(a *cli.App) *cobra.Command {
	var authorities []string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show a seed manifest: its signer, its end and its seeds",
		Long: `Show a seed manifest and check its signature. --authority checks it like a node
with these dht.seed_authorities. Without it, compare the signer with the peer id
that the authority told you. The command fails if the manifest has no valid
signature, no authority signed it, or it has expired.`,
		Example: `  allium seeds inspect seeds.pem
  allium seeds inspect seeds.pem --authority $PEER`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, file []string) error {
			signed, err := node.InspectSeeds(file[0], authorities)
			if signed.Signer == "" {
				return err
			}
			human := signedSeedsText(signed)
			return errors.Join(a.Print(signed, a.Text(human, signed.Signer)), err)
		},
	}
	cmd.Flags().StringArrayVar(&authorities, "authority", nil, "peer id that may sign, repeatable (default: any)")
	return cmd
}

// seedsText is a table of the seeds at the time now. If quiet, it is only their ids.
func seedsText(list api.Seeds, now time.Time, quiet bool) string {
	const format = "%-52s  %-8s  %-9s  %-14s  %-10s  %s\n"
	var b strings.Builder
	if !quiet && len(list.Seeds) > 0 {
		fmt.Fprintf(&b, format, "seed", "source", "connected", "last success", "expires", "gave")
	}
	for _, s := range list.Seeds {
		if quiet {
			fmt.Fprintln(&b, s.ID)
			continue
		}
		gave := "-"
		if !s.GaveAt.IsZero() {
			gave = printable.Count(len(s.Gave), "peer")
		}
		fmt.Fprintf(&b, format,
			s.ID, s.Source, yesNo(s.Connected), term.Ago(s.LastSuccess, now), expiryText(s.NotAfter, now), gave)
		if s.LastError != "" {
			fmt.Fprintf(&b, "  %s: %s\n", printable.Count(s.Tries, "try"),
				strings.Join(strings.Fields(s.LastError), " "))
		}
	}
	if quiet {
		return strings.TrimSuffix(b.String(), "\n")
	}
	if len(list.Seeds) == 0 {
		fmt.Fprintln(&b, "no seeds; name some in dht.bootstrap")
	}
	if m := list.Manifest; m != nil {
		if m.Signer != "" {
			fmt.Fprintf(&b, "manifest %d, signed by %s, until %s\n", m.Seq, m.Signer,
				m.NotAfter.UTC().Format(time.RFC3339))
		}
		if m.Error != "" {
			fmt.Fprintf(&b, "manifest: %s\n", m.Error)
		}
	}
	if list.Remembered > 0 {
		fmt.Fprintf(&b, "%s remembered for when no seed answers\n", printable.Count(list.Remembered, "peer"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// signedSeedsText is a seed manifest: who signed it, until when, and its addresses.
func signedSeedsText(s node.SignedSeeds) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signed by  %s\nuntil      %s\nsequence   %d\nseeds      %d",
		s.Signer, s.NotAfter.Format(time.RFC3339), s.Seq, len(s.Seeds))
	for _, seed := range s.Seeds {
		for _, addr := range seed.Addrs {
			fmt.Fprintf(&b, "\n  %s/p2p/%s", addr, seed.ID)
		}
	}
	return b.String()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// expiryText returns the day of t, or "expired" if t is not after now.
func expiryText(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case !t.After(now):
		return "expired"
	}
	return t.UTC().Format(time.DateOnly)
}
