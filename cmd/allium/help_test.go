package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/replication"
)

// verbs are the words that the one-line helps begin with.
var verbs = strings.Fields(`Add Announce Ask Break Check Close Connect Describe End Evict Explain Fetch Find Finish
	Inspect Keep List Make Measure Mount
	Narrow Pin Play Print Prove Publish Read Rebuild Remove Revoke Run Say Serve Set Show Sign
	Simulate Start Stop Store Tell Unmount Verify Write`)

// TestOneCommand: a command line builds the command that it begins with, or all.
func TestOneCommand(t *testing.T) {
	t.Parallel()
	built := func(words ...string) (names []string) {
		for _, c := range rootCommand(cli.New(), words...).Commands() {
			if c.GroupID != groupHelp && c.GroupID != "" {
				names = append(names, c.Name())
			}
		}
		return names
	}
	all := built()
	for _, g := range groups {
		for _, c := range g.commands {
			if got := built(c.name, "b3:1"); !slices.Equal(got, []string{c.name}) || !slices.Contains(all, c.name) {
				t.Errorf("%s builds %q", c.name, got)
			}
		}
	}
	for line, want := range map[string][]string{
		"--home get --json -q --log-level=info pin ls": {"pin"},
		"--home": all, "": all, "help get": all, "gett get": all, "--help get": {"get"}, "--json gett get": all,
		"__complete get": all,
	} {
		if got := built(strings.Fields(line)...); !slices.Equal(got, want) {
			t.Errorf("%q builds %q", line, got)
		}
	}
}

// TestHelp: the help of every command begins with a verb and has an example.
func TestHelp(t *testing.T) {
	t.Parallel()
	root := rootCommand(cli.New())
	walk(root, func(c *cobra.Command) {
		first, _, _ := strings.Cut(c.Short, " ")
		if !slices.Contains(verbs, strings.TrimSuffix(first, ",")) {
			t.Errorf("%s: the help %q begins with no verb that the test knows", c.CommandPath(), c.Short)
		}
		if len(c.Short) > 72 || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the help %q is too long, or a sentence", c.CommandPath(), c.Short)
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if name := strings.TrimPrefix(c.CommandPath(), "allium "); c.Runnable() && !c.HasSubCommands() &&
			c.GroupID != groupHelp {
			if _, ok := tasks[name]; !ok && !strings.HasPrefix(name, "completion") {
				t.Errorf("tasks does not say what %q does", name)
			}
		}
		if c.Parent() == root && c.GroupID == "" && !c.Hidden {
			t.Errorf("%s is in no group", c.CommandPath())
		}
	})
	for name := range tasks {
		if c, _, err := root.Find(strings.Fields(name)); err != nil || name != "" && c == root {
			t.Errorf("tasks has %q, which is no command", name)
		}
	}
}

// inExamples puts values in the place of the examples' variables.
var inExamples = strings.NewReplacer(
	"$ADDRESS", nowhere, "$BEFORE", nowhere, "$PEER", "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6",
)

// alliumInExample finds the calls of allium in a line of an example. What stands
// three spaces behind a call explains it.
var alliumInExample = regexp.MustCompile(`(?:^|[|;&(])\s*(?:\w+=\S+ )?allium ((?:'[^']*'|"[^"]*"|[^|&;()<>])*)`)

// TestExamples: every example can be pasted. Its commands and flags exist, and the
// arguments are as many as the command takes.
func TestExamples(t *testing.T) {
	t.Parallel()
	walk(rootCommand(cli.New()), func(c *cobra.Command) {
		if strings.Contains(c.Example, "…") && c.Name() != "attenuate" {
			t.Errorf("%s: an example with … cannot be pasted", c.CommandPath())
		}
		found := 0
		for line := range strings.Lines(c.Example) {
			if strings.Contains(c.CommandPath(), "completion") {
				found++
				continue
			}
			text, _, _ := strings.Cut(strings.TrimSpace(line), "   ")
			for _, m := range alliumInExample.FindAllStringSubmatch(inExamples.Replace(text), -1) {
				found++
				root := rootCommand(cli.New())
				called, rest, err := root.Find(replication.WithNumbers(shellWords(m[1])))
				if err == nil {
					err = called.ParseFlags(rest)
				}
				if err == nil {
					err = called.ValidateArgs(called.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: %q: %v", c.CommandPath(), strings.TrimSpace(line), err)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no example calls allium", c.CommandPath())
		}
	})
}

// shellWords splits a command at spaces outside quotes.
func shellWords(s string) (words []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(s, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}

// TestFlags: a flag says its default, unless cobra shows one or it is a switch.
func TestFlags(t *testing.T) {
	t.Parallel()
	walk(rootCommand(cli.New()), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			shown := !slices.Contains([]string{"", "0", "[]", "0s"}, f.DefValue)
			if f.Value.Type() != "bool" && !shown && !strings.Contains(f.Usage, "default") &&
				!strings.Contains(f.Usage, "required") {
				t.Errorf("%s --%s: %q does not say the default", c.CommandPath(), f.Name, f.Usage)
			}
		})
	})
}

// TestErrorWidth: an error wraps at words on a terminal and not in a pipe, and
// control characters in what it quotes are escaped.
func TestErrorWidth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		columns int
		want    string
	}{
		{0, "allium: cannot run `allium \\x1b[31mred`: there is no command \"\\x1b[31mred\". `allium --help` " +
			"lists all.\n"},
		{40, "allium: cannot run `allium \\x1b[31mred`:\n  there is no command \"\\x1b[31mred\".\n" +
			"  `allium --help` lists all.\n"},
	} {
		var errs bytes.Buffer
		a := cli.New()
		a.Stderr, a.ErrColumns = &errs, c.columns
		if exit := execute(t.Context(), a, []string{"\x1b[31mred"}); exit != 2 || errs.String() != c.want {
			t.Errorf("%d columns: exit code %d\n%s\nwant\n%s", c.columns, exit, errs.String(), c.want)
		}
	}
}
