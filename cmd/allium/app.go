package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"allium/gateway/api"
	"allium/gateway/client"
	"allium/internal/printable"
	"allium/node"
	"allium/node/config"
	"allium/protocols/status"
)

// app is what all commands share: the global flags and the streams.
type app struct {
	home       string
	configFile string
	json       bool
	quiet      bool
	logLevel   string
	logFormat  string
	api        string // admin listener of another machine's node, through a tunnel; empty: the home directory's
	tokenFile  string

	stdin       io.Reader
	stdout, err io.Writer
	terminal    bool // err is one, so progress may be drawn
	columns     int  // of the terminal that stdout is; 0: it is none
}

func newApp() *app {
	columns, _, _ := term.GetSize(int(os.Stdout.Fd())) // 0 with an error
	return &app{stdin: os.Stdin, stdout: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd())), columns: columns}
}

// command builds the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "allium",
		Short: "A peer-to-peer node for content addressed by BLAKE3",
		Long: `allium stores, finds, fetches and serves files and directories by what they
contain: an address is "b3:" and the BLAKE3 hash that b3sum prints, and every
64 KiB that arrives is proved against it.`,
		Example: `  allium run &                  start a node
  allium add ./photos           store a directory; prints its address
  allium get b3:… -o photos     fetch it, on any other node
  allium testnet up             try it all on this machine`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.home, "home", "", "directory of the node (default $ALLIUM_HOME, else ~/.allium)")
	f.StringVar(&a.configFile, "config", "", "configuration file (default config.toml in the home directory)")
	f.BoolVar(&a.json, "json", false, "machine-readable output, one JSON value a line")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "only what a script needs: no progress, no names")
	f.StringVar(&a.logLevel, "log-level", "", "debug, info, warn or error")
	f.StringVar(&a.logFormat, "log-format", "", "text or json")
	f.StringVar(&a.api, "api", "", "http://host:port of the admin listener to talk to instead of the home directory's node: a tunnel to another machine's")
	f.StringVar(&a.tokenFile, "token-file", "", "file with the capability that --api or --gateway is shown, - for standard input (default $ALLIUM_TOKEN)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.tokenFileUsed(cmd) }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return status.Errorf(status.BadRequest, "%w; see `%s --help`", err, cmd.CommandPath())
	})
	root.AddCommand(
		a.initCommand(), a.runCommand(), a.idCommand(), a.versionCommand(),
		a.addCommand(), a.getCommand(), a.catCommand(), a.lsCommand(), a.statCommand(), a.diffCommand(), a.verifyCommand(), a.pinCommand(), a.storeCommand(), a.gcCommand(),
		a.providersCommand(), a.announceCommand(),
		a.peersCommand(), a.connectCommand(), a.disconnectCommand(), a.pingCommand(), a.seedsCommand(), a.nodeCommand(),
		a.tokenCommand(), a.auditCommand(), a.configCommand(), a.testnetCommand(), a.simCommand(), a.docsCommand(),
	)
	cobraCommands(root)
	walk(root, func(c *cobra.Command) {
		if c.HasSubCommands() && c.RunE == nil {
			c.RunE, c.Args = group, cobra.ArbitraryArgs
		}
	})
	a.completions(root)
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate(), a.columns))
	return root
}

// cobraCommands adds the commands that cobra would add later, with what they
// lack: help refuses words that are no command, completion has an example.
func cobraCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, words []string) error {
				if about, rest, err := root.Find(words); err != nil || len(rest) > 0 {
					return unknown(about, rest[0])
				}
				return nil
			}
		case "completion":
			c.Example = `  source <(allium completion bash)      for this shell
  allium completion fish | source
  allium completion zsh > "${fpath[1]}/_allium"`
		}
	}
}

// group is what a command does that only holds others: its help, but a word
// that is none of them is an error.
func group(cmd *cobra.Command, got []string) error {
	if len(got) > 0 {
		return unknown(cmd, got[0])
	}
	return cmd.Help()
}

// unknown is the error of a word that is no command below cmd.
func unknown(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = max(1, min(2, len(word)/2-1)) // letters that may be wrong
	meant := ""
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		meant = "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return status.Errorf(status.BadRequest, "unknown command %q for %q%s; see `%s --help`", word, cmd.CommandPath(), meant, cmd.CommandPath())
}

// noArgs is for commands that take none; cobra's own calls every argument an
// unknown command.
func noArgs(cmd *cobra.Command, got []string) error {
	switch {
	case len(got) == 0:
		return nil
	case cmd.HasSubCommands():
		return unknown(cmd, got[0])
	default:
		return status.Errorf(status.BadRequest, "%s takes no arguments, and %q is one; see `%[1]s --help`", cmd.CommandPath(), got[0])
	}
}

// args turns cobra's complaints about the number of arguments into bad_request.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if err := check(cmd, got); err != nil {
			return status.Errorf(status.BadRequest, "%w; usage: %s", err, cmd.UseLine())
		}
		return nil
	}
}

// exit reports err and returns the exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return 0
	}
	o := outcomeOf(err)
	if o == status.Unauthenticated && a.tokenFile == "" && os.Getenv(tokenEnv) == "" {
		err = fmt.Errorf("%w; name a file that has one with --token-file, or set $%s", err, tokenEnv)
	}
	if a.json {
		report := status.ReportOf(err)
		report.Reason = o.String()
		_ = json.NewEncoder(a.err).Encode(report)
	} else {
		fmt.Fprintf(a.err, "allium: %s\n", printable.Text(err.Error()))
	}
	return o.Exit()
}

// outcomeOf is [status.Of], but that a file which this user may not open is
// forbidden: to a command, unlike to a node, files belong to whoever runs it.
func outcomeOf(err error) status.Outcome {
	var typed interface{ Status() status.Outcome }
	if !errors.As(err, &typed) && errors.Is(err, fs.ErrPermission) {
		return status.Forbidden
	}
	return status.Of(err)
}

// homeDir is the node's directory.
func (a *app) homeDir() (string, error) {
	home := a.home
	if home == "" {
		home = os.Getenv("ALLIUM_HOME")
	}
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", status.Errorf(status.BadRequest, "%w; name the node's directory with --home or ALLIUM_HOME", err)
		}
		home = filepath.Join(user, ".allium")
	}
	return filepath.Abs(home)
}

// load reads the configuration; flags are a command's own, by key.
func (a *app) load(flags map[string]any) (config.Loaded, string, error) {
	home, err := a.homeDir()
	if err != nil {
		return config.Loaded{}, "", err
	}
	if flags == nil {
		flags = map[string]any{}
	}
	if a.logLevel != "" {
		flags["log.level"] = a.logLevel
	}
	if a.logFormat != "" {
		flags["log.format"] = a.logFormat
	}
	o := config.Options{File: filepath.Join(home, config.FileName), Env: os.Environ(), Flags: flags}
	if a.configFile != "" {
		o.File, o.Required = a.configFile, true
	}
	cfg, err := config.Load(o)
	return cfg, home, err
}

// node is the node of the home directory, or the one at --api. Nothing is
// dialled yet: where none runs, the first call says so (client.ErrNotRunning).
func (a *app) node() (*client.Client, error) {
	if a.api != "" {
		if !strings.HasPrefix(a.api, "http://") && !strings.HasPrefix(a.api, "https://") {
			return nil, status.Errorf(status.BadRequest, "--api is %q; write http://127.0.0.1:9600", a.api)
		}
		token, err := a.token(a.tokenFile)
		if err != nil {
			return nil, err
		}
		return client.NewWith(a.api, client.Options{Token: token})
	}
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	socket, err := api.SocketPath(home)
	if err != nil {
		return nil, err
	}
	return client.New(socket)
}

// withStore runs f on the running node or, when none runs, on its store. f
// must not have had an effect when it returns client.ErrNotRunning.
func (a *app) withStore(ctx context.Context, f func(api.Store) error) error {
	n, err := a.node()
	if err != nil {
		return err
	}
	defer n.Close()
	if err := f(n); !errors.Is(err, client.ErrNotRunning) || a.api != "" {
		return err
	}
	cfg, home, err := a.load(nil)
	if err != nil {
		return err
	}
	off, err := node.OpenOffline(ctx, home, cfg.Config)
	if err != nil {
		return err
	}
	return errors.Join(f(off), off.Close())
}

// print writes one result: as JSON, or as the line that human makes, in which
// what a terminal would act on is escaped; names go through printable.Name before.
func (a *app) print(v any, human string) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(v)
	}
	if human == "" {
		return nil
	}
	_, err := fmt.Fprintln(a.stdout, printable.Text(human))
	return err
}
