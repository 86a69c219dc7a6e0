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
	var all bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Show every key with its value and where it comes from",
		Example: `  allium config show
  allium config show --changed
  ALLIUM_LOG__LEVEL=debug allium config show --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, _, err := a.load(nil)
			if err != nil {
				return err
			}
			for _, v := range cfg.Values() {
				if all && v.Source == config.FromDefault {
					continue
				}
				human := fmt.Sprintf("%-32s %-28s %s", v.Name, v.Value, v.Source)
				if a.quiet {
					human = v.Name + "=" + v.Value
				}
				if err := a.print(v, human); err != nil {
					return err
				}
			}
			return nil
		},
	}
	show.Flags().BoolVar(&all, "changed", false, "only what is not at its default")
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
a reload applies a change or it takes a restart.`,
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

// explainText is what there is to say of a key, for people; with -q its value.
func (a *app) explainText(e config.Explained, file string) string {
	if a.quiet {
		return e.Value.Value
	}
	from := string(e.Source)
	switch e.Source {
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
	empty := func(s string) string {
		if s == "" {
			return "(empty)"
		}
		return s
	}
	return fmt.Sprintf("%s (%s)\n  %s\n\n  value      %s\n  from       %s\n  default    %s\n  variable   %s\n  a change   %s",
		e.Name, e.Type, e.Doc, empty(e.Value.Value), from, empty(e.Default), e.Env, change)
}
