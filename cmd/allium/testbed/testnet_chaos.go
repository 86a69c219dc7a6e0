package testbed

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/protocols/status"
	"allium/testnet"
	"allium/testnet/script"
)

func testnetChaosCommand(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "chaos VERB…",
		Short: "Break the running network, or repair it",
		Long: "Break the running network, or repair it. Flags come before the verb.\n\n" +
			verbHelp(func(v script.Verb) bool { return v.Chaos }) + "\n" +
			"NODES are numbers such as 3, 1,2, 2-4 or all. A verb that fails half-way undoes itself.",
		Example: chaosExamples(),
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, words []string) error {
			line := strings.Join(words, " ")
			s, err := script.Parse(line)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(script.Verbs(), func(v script.Verb) bool { return v.Op == s.Op && v.Chaos }) {
				return status.Errorf(status.BadRequest,
					"%s breaks nothing; run it with `allium testnet run %q`", s.Op, line)
			}
			return testnetSteps(cmd.Context(), a, dir, []string{line})
		},
		ValidArgsFunction: completeChaos(&dir),
	}
	netFlag(cmd, &dir)
	cmd.Flags().SetInterspersed(false) // -1h is a clock skew, not a flag
	return cmd
}

func testnetRunCommand(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "run STEP… | -",
		Short: "Play steps of scenarios on the running network",
		Long: "Play steps on the running network, one after the other. A step is one quoted\n" +
			"argument, or with - a line of standard input; words without quotes are one step.\n" +
			"The first step that fails ends the command. Beside the verbs of allium testnet\n" +
			"chaos there are:\n\n" +
			verbHelp(func(v script.Verb) bool { return !v.Chaos && !v.Head && v.Op != script.Join }),
		Example: `  allium testnet run "add 1 a tree 1MiB" "get 3 a"
  allium testnet run '! get 3 a not_found within 5s'
  allium testnet run expect ready all`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, got []string) error {
			lines := got
			switch {
			case len(got) == 1 && got[0] == "-":
				var err error
				if lines, err = readLines(a.Stdin); err != nil {
					return err
				}
			case !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, " ") }):
				lines = []string{strings.Join(got, " ")}
			}
			if _, err := testnet.ParseSteps(lines); err != nil {
				return err
			}
			return testnetSteps(cmd.Context(), a, dir, lines)
		},
	}
	netFlag(cmd, &dir)
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// readLines reads steps, without empty lines and comments.
func readLines(r io.Reader) ([]string, error) {
	var lines []string
	sc := bufio.NewScanner(io.LimitReader(r, script.MaxFile))
	for sc.Scan() {
		if text := strings.TrimSpace(sc.Text()); text != "" && text[0] != '#' {
			lines = append(lines, text)
		}
	}
	if len(lines) == 0 && sc.Err() == nil {
		return nil, failure.NewUsage("write one step a line", "there is no step on standard input")
	}
	return lines, sc.Err()
}

// testnetSteps plays lines on the running network and prints the result of each.
func testnetSteps(ctx context.Context, a *cli.App, dir string, lines []string) error {
	r, err := remote(dir)
	if err != nil {
		return err
	}
	return r.Run(ctx, lines, func(e testnet.Event) {
		if e.Error == nil {
			_ = printEvent(a, e)
		}
	})
}

// printEvent prints the result of a step.
func printEvent(a *cli.App, e testnet.Event) error {
	if a.JSON {
		return a.Print(e, "")
	}
	if a.Quiet {
		return nil
	}
	for _, said := range e.Said {
		if _, err := fmt.Fprintln(a.Stdout, said); err != nil {
			return err
		}
	}
	return nil
}

// verbHelp lists verbs for the help of a command.
func verbHelp(want func(script.Verb) bool) string {
	var b strings.Builder
	for _, v := range script.Verbs() {
		if !want(v) {
			continue
		}
		for form := range strings.SplitSeq(v.Usage, " · ") {
			fmt.Fprintf(&b, "  %s\n", form)
		}
		fmt.Fprintf(&b, "      %s\n", v.Doc)
	}
	return b.String()
}

// chaosExamples lists the examples of each chaos verb.
func chaosExamples() string {
	var lines []string
	for _, v := range script.Verbs() {
		if v.Chaos {
			for _, s := range v.Shell {
				lines = append(lines, "  allium testnet chaos "+s)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// completeChaos offers verbs, then the numbers of nodes.
func completeChaos(dir *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, got []string, _ string) ([]string, cobra.ShellCompDirective) {
		var offer []string
		if len(got) == 0 {
			for _, v := range script.Verbs() {
				if v.Chaos {
					offer = append(offer, string(v.Op)+"\t"+v.Doc)
				}
			}
			return offer, cobra.ShellCompDirectiveNoFileComp
		}
		for _, v := range script.Verbs() {
			takesNodes := strings.Contains(v.Usage, string(v.Op)+" NODES") || v.Op == script.Heal
			if string(v.Op) != got[0] || !v.Chaos || len(got) > 1 || !takesNodes {
				continue
			}
			r, err := remote(*dir)
			if err != nil {
				break
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompletionTimeout)
			defer cancel()
			s, err := r.Status(ctx)
			if err != nil {
				break
			}
			for _, n := range s.Nodes {
				state := "runs"
				if !n.Running {
					state = "does not run"
				}
				offer = append(offer, strconv.Itoa(n.Number)+"\t"+state)
			}
		}
		return offer, cobra.ShellCompDirectiveNoFileComp
	}
}
