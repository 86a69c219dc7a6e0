package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/node"
	"allium/protocols/status"
)

func (a *app) seedsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seeds",
		Short: "List the seeds; sign and inspect seed manifests",
		Long: `List the peers through which the node finds its network: who named them, how
they do, and how many peers each gave.

Seeds come from dht.bootstrap and from a manifest: a list in a file
(dht.seed_manifest) that an authority (dht.seed_authorities) signs for a time.
A new file takes effect within minutes, without a restart.`,
		Example: `  allium seeds
  allium seeds --json
  allium seeds sign --key authority/identity.key --days 90 -o seeds.pem /dns4/a.example/tcp/4901/p2p/12D3KooW…
  allium seeds inspect seeds.pem`,
		Args: noArgs,
		RunE: a.onNode(func(ctx context.Context, n api.Node, _ []string) error {
			list, err := n.Seeds(ctx)
			if err != nil {
				return err
			}
			return a.print(list, a.seedLines(list, time.Now()))
		}),
	}
	cmd.AddCommand(a.seedsSignCommand(), a.seedsInspectCommand())
	return cmd
}

// seedLines is the list for people, as of now.
func (a *app) seedLines(list api.Seeds, now time.Time) string {
	const format = "%-52s  %-8s  %-9s  %-14s  %-10s  %s\n"
	var b strings.Builder
	if !a.quiet && len(list.Seeds) > 0 {
		fmt.Fprintf(&b, format, "seed", "source", "connected", "last success", "expires", "gave")
	}
	for _, s := range list.Seeds {
		if a.quiet {
			fmt.Fprintln(&b, s.ID)
			continue
		}
		gave := "-"
		if !s.GaveAt.IsZero() {
			gave = plural(len(s.Gave), "peer")
		}
		fmt.Fprintf(&b, format, s.ID, s.Source, yesNo(s.Connected), ago(s.LastSuccess, now), expiry(s.NotAfter, now), gave)
		if s.LastError != "" {
			fmt.Fprintf(&b, "  %d tries: %s\n", s.Tries, strings.Join(strings.Fields(s.LastError), " "))
		}
	}
	if a.quiet {
		return strings.TrimSuffix(b.String(), "\n")
	}
	if len(list.Seeds) == 0 {
		fmt.Fprintln(&b, "no seeds; name some in dht.bootstrap")
	}
	if m := list.Manifest; m != nil {
		if m.Signer != "" {
			fmt.Fprintf(&b, "manifest %d, signed by %s, until %s\n", m.Seq, m.Signer, m.NotAfter.UTC().Format(time.RFC3339))
		}
		if m.Error != "" {
			fmt.Fprintf(&b, "manifest: %s\n", m.Error)
		}
	}
	if list.Remembered > 0 {
		fmt.Fprintf(&b, "%s remembered for when no seed answers\n", plural(list.Remembered, "peer"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// ago is how long t is past.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Sub(t).Round(time.Second).String() + " ago"
}

// expiry is the day of t, or that it is past.
func expiry(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case !t.After(now):
		return "expired"
	}
	return t.UTC().Format(time.DateOnly)
}

// maxDays is the longest life of a manifest.
const maxDays = 365

func (a *app) seedsSignCommand() *cobra.Command {
	var key, output string
	var days int
	var seq uint64
	cmd := &cobra.Command{
		Use:   "sign --key FILE MULTIADDR…",
		Short: "Make a seed manifest",
		Long: `Sign a list of seeds. The key is that of an authority: a file as "allium init"
makes it (identity.key), best one that no node runs with. Nodes take the
manifest when they have the authority's peer id in dht.seed_authorities.

A manifest holds until it expires or one with a higher sequence number replaces
it. The addresses of one seed count as one seed; at most 256 with 16 addresses
each.`,
		Example: `  allium --home ~/authority init
  allium seeds sign --key ~/authority/identity.key --days 90 -o seeds.pem /dns4/a.example/tcp/4901/p2p/12D3KooW…`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, addrs []string) error {
			if key == "" {
				return status.Errorf(status.BadRequest, "--key is missing: name the file with the authority's key")
			}
			if days < 1 || days > maxDays {
				return status.Errorf(status.BadRequest, "--days is %d, must be 1 to %d", days, maxDays)
			}
			now := time.Now()
			if seq == 0 {
				seq = uint64(now.UnixMilli())
			}
			text, signed, err := node.SignSeeds(key, addrs, seq, now.AddDate(0, 0, days))
			if err != nil {
				return err
			}
			human := strings.TrimSuffix(string(text), "\n")
			if output != "-" {
				if err := replaceFile(output, text); err != nil {
					return fmt.Errorf("--output: %w", err)
				}
				human = ""
				if !a.quiet {
					human = signedLines(signed) + "\nwritten to " + output
				}
			}
			return a.print(struct {
				node.SignedSeeds
				Manifest string `json:"manifest"`
			}{signed, string(text)}, human)
		},
	}
	f := cmd.Flags()
	f.StringVar(&key, "key", "", "file with the key of the authority")
	f.IntVar(&days, "days", 90, "days until it expires, 1 to 365")
	f.Uint64Var(&seq, "seq", 0, "sequence number; of two manifests the higher holds (default the time in milliseconds)")
	f.StringVarP(&output, "output", "o", "-", "file to write, replacing what it holds; - is standard output")
	return cmd
}

func (a *app) seedsInspectCommand() *cobra.Command {
	var authorities []string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show a seed manifest: who signed it, until when it holds, and its seeds",
		Long: `Show a seed manifest and check its signature. With --authority it is checked as
a node with those dht.seed_authorities would; without, compare the signer with
the peer id that the authority told you. It fails when the manifest is not
signed, not by an authority, or has expired.`,
		Example: `  allium seeds inspect seeds.pem
  allium seeds inspect seeds.pem --authority 12D3KooW…`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, file []string) error {
			signed, err := node.InspectSeeds(file[0], authorities)
			if signed.Signer == "" {
				return err
			}
			human := signedLines(signed)
			if a.quiet {
				human = signed.Signer
			}
			return errors.Join(a.print(signed, human), err)
		},
	}
	cmd.Flags().StringArrayVar(&authorities, "authority", nil, "peer id that may sign, repeatable (default: anybody)")
	return cmd
}

// signedLines is a manifest for people.
func signedLines(s node.SignedSeeds) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signed by  %s\nuntil      %s\nsequence   %d\nseeds      %d", s.Signer, s.NotAfter.Format(time.RFC3339), s.Seq, len(s.Seeds))
	for _, seed := range s.Seeds {
		for _, addr := range seed.Addrs {
			fmt.Fprintf(&b, "\n  %s/p2p/%s", addr, seed.ID)
		}
	}
	return b.String()
}

// replaceFile puts text into a file in one step: a node may read it meanwhile.
func replaceFile(name string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".seeds-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to tell
		}
	}()
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
