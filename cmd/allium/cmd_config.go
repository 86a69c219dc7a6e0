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
		Example: "  allium config show\n  allium config check",
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
the certificate. Nothing is started or changed.`,
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
			human := fmt.Sprintf("%s: good", from)
			if a.quiet {
				human = ""
			}
			return a.print(map[string]any{"ok": true, "file": cfg.File}, human)
		},
	}
	cmd.AddCommand(show, check)
	return cmd
}
