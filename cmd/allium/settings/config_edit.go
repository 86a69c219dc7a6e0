package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/node/config"
)

// explained returns what a key of the configuration is, and the file that was read.
func explained(a *cli.App, key string) (e config.Explained, file string, err error) {
	cfg, _, err := Configuration(a)
	if err == nil {
		e, err = cfg.Explain(key)
	}
	return e, cfg.File, err
}

func configGetCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "get KEY",
		Short: "Print the value of a key",
		Long: `Print the value of a key that is in force, wherever it comes from. The elements of
a list are joined by commas. "config explain" says where the value comes from.`,
		Example:           "  allium config get store.max_bytes\n  allium config get listen.addrs --json",
		Args:              cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeKeys(a),
		RunE: func(_ *cobra.Command, arg []string) error {
			e, _, err := explained(a, arg[0])
			if err != nil {
				return err
			}
			return a.Print(e, e.Value.Value)
		},
	}
}

func configSetCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "set KEY VALUE [KEY VALUE]…",
		Short: "Set keys in the configuration file",
		Long: `Set one key or several in the configuration file. Its comments, its order and its
layout stay as they are; a new key goes below the line "# key = …" of its table, if
there is one. The elements of a list are given one by one, or joined by commas; "" is
the empty list. Sizes are written 64KiB or 10GiB, durations 1500ms or 2h.

The whole configuration is checked first, with all of the keys, so that keys that need
each other are set together. If anything in it is wrong, the file stays as it was; so
it does if other programs change it all the time (exit code 5). A link is followed, and
stays a link. The command says what puts each value in force.`,
		Example: `  allium config set store.max_bytes 200GiB
  allium config set gateway.cors_origins https://a.example https://b.example
  allium config set gateway.tls.cert cert.pem gateway.tls.key key.pem
  allium config set edge.packs.city.file city.pmtiles`,
		Args:              cli.Args(cobra.MinimumNArgs(2)),
		ValidArgsFunction: completeKeys(a),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return edit(a, func(o config.Options) ([]config.Edited, error) {
				all, err := config.Assignments(arg)
				if err != nil {
					return nil, err
				}
				return config.Set(cmd.Context(), o, all...)
			})
		},
	}
}

func configUnsetCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "unset KEY…",
		Short: "Remove keys from the configuration file",
		Long: `Take keys out of the configuration file, so that their defaults are in force. All
other lines stay as they are, and so does a comment behind the value. A key that does
not exist is taken out too. The name of a table, as edge.packs.city, takes out the whole
table with the comments in it. What else is said of "config set" holds.`,
		Example: `  allium config unset store.max_bytes
  allium config unset gateway.tls.cert gateway.tls.key
  allium config unset edge.packs.city`,
		Args:              cli.Args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeKeys(a),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return edit(a, func(o config.Options) ([]config.Edited, error) {
				return config.Unset(cmd.Context(), o, arg...)
			})
		},
	}
}

// EditOptions are the sources with which a changed file is checked.
func EditOptions(a *cli.App) (config.Options, error) {
	o := config.Options{File: a.ConfigFile, Env: os.Environ()}
	if o.File == "" {
		home, err := a.HomeDir()
		if err != nil {
			return o, err
		}
		o.File = filepath.Join(home, config.FileName)
	}
	return o, cli.CheckOutput(o.File)
}

// edit changes the configuration file and prints what was done to keys.
func edit(a *cli.App, change func(config.Options) ([]config.Edited, error)) error {
	o, err := EditOptions(a)
	if err != nil {
		return err
	}
	all, err := change(o)
	for i := 0; err == nil && i < len(all); i++ {
		err = a.Print(all[i], a.Loud(Result(all[i])))
	}
	return err
}

// completeKeys offers the configuration keys. It adds those of tables for the names that the configuration
// has, if it can be read.
func completeKeys(a *cli.App) cobra.CompletionFunc {
	return func(_ *cobra.Command, got []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(got) > 0 {
			return nil, directive
		}
		cfg, _, _ := Configuration(a) // with an error, cfg is empty
		keys := cfg.Complete(typed)
		var names []cobra.Completion
		for _, k := range keys {
			names = append(names, cobra.CompletionWithDesc(k.Name, k.Doc))
		}
		if !slices.ContainsFunc(keys, func(k config.Key) bool { return !strings.HasSuffix(k.Name, ".") }) {
			directive |= cobra.ShellCompDirectiveNoSpace // a name follows
		}
		return names, directive
	}
}
