package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/storage"
	"allium/gateway/api"
	"allium/node/p2p"
)

// completeMost is the most words that a shell's completion gets.
const completeMost = 200

// completions tells a shell what each command takes, by the words of its usage
// line: pinned addresses, connected peers, files, or nothing.
func completions(a *cli.App, root *cobra.Command) {
	values := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	profiles := make([]string, 0, 4)
	for _, p := range p2p.Profiles() {
		profiles = append(profiles, string(p))
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"profile":    values(profiles...),
		"log-level":  values("debug", "info", "warn", "error"),
		"log-format": values("text", "json"),

		"on-bad-entry": values(string(api.RefuseBadEntries), string(api.SkipBadEntries)),
	} {
		walk(root, func(c *cobra.Command) {
			if c.LocalNonPersistentFlags().Lookup(flag) != nil || c == root && c.PersistentFlags().Lookup(flag) != nil {
				// fails only for a flag that does not exist, or has a function
				_ = c.RegisterFlagCompletionFunc(flag, complete)
			}
		})
	}
	walk(root, func(c *cobra.Command) {
		_, takes, _ := strings.Cut(c.Use, " ")
		switch {
		case c.ValidArgsFunction != nil:
		case strings.Contains(takes, "KEY"):
			c.ValidArgsFunction = completePinned(a)
		case strings.Contains(takes, "PEER"):
			c.ValidArgsFunction = completePeers(a)
		case strings.Contains(takes, "PATH"), strings.Contains(takes, "FILE"), strings.Contains(takes, "DIR"):
		default:
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
	})
}

// walk calls visit with c and every command below it.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

// completePinned offers the pinned addresses, each with its label.
func completePinned(a *cli.App) cobra.CompletionFunc {
	return complete(a, func(ctx context.Context, n api.Node, _ []string, offer func(string)) error {
		for p, err := range n.Pins(ctx) {
			if err != nil {
				return err
			}
			offer(p.Root.String() + "\t" + storage.PinText(p))
		}
		return nil
	})
}

// completePeers offers the connected peers.
func completePeers(a *cli.App) cobra.CompletionFunc {
	return complete(a, func(ctx context.Context, n api.Node, got []string, offer func(string)) error {
		if len(got) > 0 {
			return nil
		}
		peers, err := n.Peers(ctx)
		for _, p := range peers {
			offer(p.ID + "\t" + p.Addr)
		}
		return err
	})
}

// askNode asks a node for the words that may follow those in got, and passes each to offer.
type askNode func(ctx context.Context, n api.Node, got []string, offer func(string)) error

// complete offers the words of ask that begin as the one that is typed: at most completeMost, and none if
// no node runs.
func complete(a *cli.App, ask askNode) cobra.CompletionFunc {
	return func(cmd *cobra.Command, got []string, prefix string) (words []string, _ cobra.ShellCompDirective) {
		if a.TokenFile == "-" {
			return nil, cobra.ShellCompDirectiveNoFileComp // the shell's standard input belongs to the shell
		}
		n, err := a.Node()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer n.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompletionTimeout)
		defer cancel()
		_ = ask(ctx, n, got, func(word string) {
			switch {
			case !strings.HasPrefix(word, prefix):
			case len(words) < completeMost:
				words = append(words, word)
			default:
				cancel()
			}
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// helpWidth returns the width of the list of flags for a terminal of so many
// columns. It is 0, one line for each flag, if there is no terminal (0).
func helpWidth(columns int) int {
	if columns <= 0 {
		return 0
	}
	return min(max(columns, 40), 100)
}

// usageTemplate returns cobra's template with the flags wrapped at width.
func usageTemplate(cobras string, width int) string {
	return strings.ReplaceAll(cobras, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth(width)))
}
