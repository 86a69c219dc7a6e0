package settings

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node"
	"allium/node/config"
	"allium/protocols/status"
)

// ConfigCommand returns `allium config`.
func ConfigCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show, check and change the configuration",
		Long: `Show, check and change the configuration: flags over environment (ALLIUM_DHT__ALPHA=5
sets dht.alpha) over config.toml over the profile's defaults.`,
		Example: `  allium config show
  allium config explain store.max_bytes
  allium config set store.max_bytes 200GiB
  allium config check`,
	}
	var all, changed bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Show every key with its value and where it comes from",
		Long: `Show every key with its value and where that comes from, grouped by the question
that it answers. A * marks a value that differs from the profile's default. Of the
tables by name, as edge.packs, those that are set are shown. With --all the keys of
earlier versions follow, which are fixed now.`,
		Example: `  allium config show
  allium config show --changed
  allium config show --all
  ALLIUM_LOG__LEVEL=debug allium config show --json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, _, err := Configuration(a)
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
				if err := a.Print(v, Line(v, &group, a.Quiet)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	show.Flags().BoolVar(&changed, "changed", false, "show only keys that a file, the environment or a flag sets")
	show.Flags().BoolVar(&all, "all", false, "show also the keys of earlier versions, which are fixed")
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and the files that it names, as run would",
		Long: `Check the configuration and the files that "allium run" reads at its start: the
identity, the denylist, the capabilities' files, the key of a private network, the
seed manifest, the certificate, the credentials of a bucket, packs, and what sources
name. Nothing is started or changed. Notes name settings whose effect may surprise.`,
		Example: "  allium config check --config new.toml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, home, err := Configuration(a)
			if err != nil {
				return err
			}
			if err := node.Check(cmd.Context(), home, cfg.Config); err != nil {
				return err
			}
			from := cfg.File
			if from == "" {
				from = "the defaults (there is no configuration file)"
			}
			notes := append(node.Notes(cfg.Config), cfg.Notes()...)
			for _, o := range cfg.Obsolete {
				notes = append(notes, o.String())
			}
			human := fmt.Sprintf("%s: good", from)
			for _, note := range notes {
				human += "\nnote: " + note
			}
			answer := map[string]any{"ok": true, "file": cfg.File}
			if len(notes) > 0 {
				answer["notes"] = notes
			}
			return a.Print(answer, a.Loud(human))
		},
	}
	explain := &cobra.Command{
		Use:   "explain KEY",
		Short: "Explain a key: its purpose, its value and where that comes from",
		Long: `Explain a configuration key: what it is for, its value here, where that comes from
(flag, environment, file or the profile's default), the variable that sets it, and
whether a change needs a reload or a restart. In a key of a table any name may stand,
also NAME, as in edge.packs.NAME.file. For a key of an earlier version, which
nothing sets any more, it prints the fixed value and the reason.`,
		Example: "  allium config explain store.max_bytes\n  allium config explain dht.alpha --json\n" +
			"  allium config explain edge.sources.NAME.url",
		Args:              cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeKeys(a),
		RunE: func(_ *cobra.Command, arg []string) error {
			e, file, err := explained(a, arg[0])
			if err != nil {
				return err
			}
			return a.Print(e, Explanation(e, file, a.Quiet))
		},
	}
	cmd.AddCommand(show, check, explain, configDiffCommand(a), configGetCommand(a), configSetCommand(a),
		configUnsetCommand(a))
	return cmd
}

func configDiffCommand(a *cli.App) *cobra.Command {
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff [FILE]",
		Short: "List how a configuration differs from that of the running node",
		Long: `List each key whose value in the running node differs from what a file says: the value in
force, the other one, and whether a reload applies it or it waits for a restart. Without a FILE
it is the file that the node reads. The flags and the environment of the running node hold for
a FILE too.

The exit code is 0 whether or not they differ. With --exit-code it is 5 if they differ.`,
		Example: "  allium config diff\n  allium config diff new.toml --exit-code",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, file []string) error {
			changes, err := Differences(ctx, n, strings.Join(file, ""))
			for i := 0; err == nil && i < len(changes); i++ {
				err = a.Print(changes[i], Change(changes[i]))
			}
			switch {
			case err != nil:
				return err
			case len(changes) == 0:
				return a.None("no differences")
			case exitCode:
				return failure.Found(status.Errorf(status.Precondition,
					"%s; leave --exit-code out to exit with 0", printable.Count(int64(len(changes)), "difference")))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 5 if they differ")
	return cmd
}

// Configuration reads the configuration that a command of config is about. The file of --config needs no
// home directory.
func Configuration(a *cli.App) (config.Loaded, string, error) {
	if a.ConfigFile == "" {
		return a.Load()
	}
	home, err := a.HomePath()
	if err != nil {
		return config.Loaded{}, "", err
	}
	cfg, err := a.LoadAt(home, nil)
	return cfg, home, err
}
