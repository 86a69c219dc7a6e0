package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"allium/node"
	"allium/node/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and check the configuration",
		Long: `Show and check the configuration: flags over environment (ALLIUM_DHT__ALPHA=5
sets dht.alpha) over config.toml over the profile's defaults.`,
		Example: "  allium config show\n  allium config check\n  allium config explain store.max_bytes",
	}
	var all, changed bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Show every key with its value and where it comes from",
		Long: `Show every key with its value and where that comes from, grouped by the question
that it answers. A * marks what differs from the default of the profile. With --all
the keys of earlier versions follow, which are fixed now.`,
		Example: `  allium config show
  allium config show --changed
  allium config show --all
  ALLIUM_LOG__LEVEL=debug allium config show --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, _, err := a.load(nil)
			if err != nil {
				return err
			}
			values := cfg.Values()
			if all {
				values = append(values, config.Fixed()...)
			}
			group := ""
			for _, v := range values {
				if changed && (v.Source == config.FromDefault || v.Source == config.FromFixed) {
					continue
				}
				if err := a.print(v, a.showText(v, &group)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	show.Flags().BoolVar(&changed, "changed", false, "only what is not at its default")
	show.Flags().BoolVar(&all, "all", false, "also what is fixed")
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and the files that it names; the error is what run would say",
		Long: `Check the configuration and the files that "allium run" reads at its start: the
identity, the denylist, the capabilities' files, the key of a private network,
the seed manifest, the certificate. Nothing is started or changed. Notes say what
the node would do otherwise than one may expect.`,
		Example: "  allium config check --config new.toml",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, home, err := a.load(nil)
			if err != nil {
				return err
			}
			if err := node.Check(home, cfg.Config); err != nil {
				return err
			}
			from := cfg.File
			if from == "" {
				from = "the defaults (there is no file)"
			}
			notes := node.Notes(cfg.Config)
			for _, o := range cfg.Obsolete {
				notes = append(notes, o.String())
			}
			human := fmt.Sprintf("%s: good", from)
			for _, note := range notes {
				human += "\nnote: " + note
			}
			if a.quiet {
				human = ""
			}
			answer := map[string]any{"ok": true, "file": cfg.File}
			if len(notes) > 0 {
				answer["notes"] = notes
			}
			return a.print(answer, human)
		},
	}
	explain := &cobra.Command{
		Use:   "explain KEY",
		Short: "Say what a key is for, its value, where that comes from, and what a change takes",
		Long: `Say what a configuration key is for, its value here, where that comes from (flag,
environment, file or the profile's default), the variable that sets it, and whether
a reload applies a change or it takes a restart. Of a key of an earlier version that
nothing sets any more it says the value that holds, and why.`,
		Example: "  allium config explain store.max_bytes\n  allium config explain dht.alpha --json",
		Args:    args(cobra.ExactArgs(1)),
		ValidArgsFunction: func(_ *cobra.Command, got []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if len(got) == 0 {
				for _, k := range config.Keys() {
					names = append(names, cobra.CompletionWithDesc(k.Name, k.Doc))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, arg []string) error {
			cfg, _, err := a.load(nil)
			if err != nil {
				return err
			}
			e, err := cfg.Explain(arg[0])
			if err != nil {
				return err
			}
			return a.print(e, a.explainText(e, cfg.File))
		},
	}
	cmd.AddCommand(show, check, explain)
	return cmd
}

// showText is the line of a key for people, below the heading of its group where
// that is another than the last one; with -q the key and its value alone.
func (a *app) showText(v config.Value, group *string) string {
	if a.quiet {
		return v.Name + "=" + v.Value
	}
	mark, head := " ", ""
	if v.Changed {
		mark = "*"
	}
	if v.Group != *group {
		if *group != "" {
			head = "\n"
		}
		head += v.Group + "\n"
		*group = v.Group
	}
	return fmt.Sprintf("%s%s %-32s %-28s %s", head, mark, v.Name, v.Value, v.Source)
}

// explainText is what there is to say of a key, for people; with -q its value.
func (a *app) explainText(e config.Explained, file string) string {
	if a.quiet {
		return e.Value.Value
	}
	empty := func(s string) string {
		if s == "" {
			return "(empty)"
		}
		return s
	}
	from := string(e.Source)
	switch e.Source {
	case config.FromFixed:
		return fmt.Sprintf("%s (%s)\n  Fixed: nothing sets it. %s\n\n  value      %s", e.Name, e.Type, e.Doc, empty(e.Value.Value))
	case config.FromDefault:
		from = "the default of the profile"
	case config.FromFile:
		from = file
	case config.FromEnv:
		from = "the environment, " + e.Env
	case config.FromFlag:
		from = "a flag"
	}
	change := "takes a restart of the node"
	if e.Hot {
		change = "is applied by a reload"
	}
	return fmt.Sprintf("%s (%s)\n  %s\n\n  value      %s\n  from       %s\n  default    %s\n  variable   %s\n  a change   %s",
		e.Name, e.Type, e.Doc, empty(e.Value.Value), from, empty(e.Default), e.Env, change)
}
