package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/node"
	"allium/protocols/status"
)

// The groups of commands in the help, by what a person wants.
const (
	groupFiles   = "files"
	groupFind    = "find"
	groupShare   = "share"
	groupRun     = "run"
	groupInspect = "inspect"
	groupTry     = "try"
	groupHelp    = "help"
)

// rootCommand builds the tree of commands.
func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "allium",
		Short: "Store, find, fetch and serve files by what they contain",
		Long: `allium stores, finds, fetches and serves files and directories by what they
contain. An address is "b3:" and the BLAKE3 hash that b3sum prints. Every 64 KiB
that arrives is proved against it.

In the examples, $ADDRESS is what "allium add -q" printed, and $PEER a peer id as
"allium id -q" prints it.`,
		Example: `  allium run &                             start a node
  ADDRESS=$(allium add -q ./photos)        store a directory
  allium get $ADDRESS -o photos            fetch it, on any other node
  allium testnet up                        try it all on this machine`,
		Version:       node.ThisVersion().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.home, "home", "", "directory of the node (default $ALLIUM_HOME, else ~/.allium)")
	f.StringVar(&a.configFile, "config", "", "configuration file (default config.toml in the home directory)")
	f.BoolVar(&a.json, "json", false, "print one JSON value a line, for programs")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print only what a script needs: no progress, no names")
	f.StringVar(&a.logLevel, "log-level", "",
		"lowest level that is logged: debug, info, warn or error; with debug an error shows its causes (default "+
			"log.level)")
	f.StringVar(&a.logFormat, "log-format", "", "format of the log: text or json (default log.format)")
	f.StringVar(&a.api, "api", "",
		"URL of another machine's admin listener, through a tunnel: http://host:port (default: the home "+
			"directory's node)")
	f.StringVar(&a.tokenFile, "token-file", "",
		"file with the capability to send with --api or --gateway; - is standard input (default $ALLIUM_TOKEN)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return tokenFileUsed(a, cmd) }
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("allium {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{groupFiles, "Store and fetch", []*cobra.Command{
			addCommand(a), getCommand(a), shareCommand(a),
			catCommand(a), lsCommand(a), diffCommand(a), pinCommand(a), verifyCommand(a),
		}},
		{groupFind, "Find", []*cobra.Command{
			resolveCommand(a), providersCommand(a), peersCommand(a), seedsCommand(a),
			connectCommand(a), disconnectCommand(a), pingCommand(a),
		}},
		{groupShare, "Share", []*cobra.Command{
			publishCommand(a), followCommand(a), announceCommand(a), tokenCommand(a),
			zoneCommand(a), nameCommand(a), packCommand(a),
		}},
		{groupRun, "Run a node", []*cobra.Command{
			initCommand(a), runCommand(a), nodeCommand(a), configCommand(a), swarmKeyCommand(a), gcCommand(a),
			storeCommand(a),
		}},
		{groupInspect, "Look inside", []*cobra.Command{
			idCommand(a), statCommand(a), durabilityCommand(a), limitsCommand(a),
			whyCommand(a), doctorCommand(a), auditCommand(a), versionCommand(a),
		}},
		{groupTry, "Try it out", []*cobra.Command{testnetCommand(a), simCommand(a)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.id
		}
		root.AddCommand(g.commands...)
	}
	root.AddGroup(&cobra.Group{ID: groupHelp, Title: "Get help:"})
	root.SetHelpCommandGroupID(groupHelp)
	root.SetCompletionCommandGroupID(groupHelp)
	root.AddCommand(docsCommand())
	cobraCommands(root)
	walk(root, func(c *cobra.Command) {
		if c.HasSubCommands() && c.RunE == nil {
			c.RunE, c.Args = group, cobra.ArbitraryArgs
		}
	})
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate(), a.columns))
	return root
}

// cobraCommands adds the commands that cobra would add later, and completes them:
// help refuses words that are no command, and completion has an example.
func cobraCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short = "Explain a command"
			c.Example = "  allium help get\n  allium help pin add"
			c.Args = func(_ *cobra.Command, words []string) error {
				if about, rest, err := root.Find(words); err != nil || len(rest) > 0 {
					return unknownCommand(about, rest[0])
				}
				return nil
			}
		case "completion":
			c.Short = "Print a script that lets a shell complete commands"
			c.Example = `  source <(allium completion bash)      for this shell
  allium completion fish | source
  allium completion zsh > "${fpath[1]}/_allium"`
			for _, shell := range c.Commands() {
				shell.Short = "Print the completion script for " + shell.Name()
				shell.Example = "  allium completion " + shell.Name()
			}
		}
	}
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, a *app, args []string) int {
	root := rootCommand(a)
	if strings.Contains(strings.Join(args, " "), cobra.ShellCompRequestCmd) {
		completions(a, root)
	}
	root.SetArgs(withNumbers(args))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if failure.Interrupted(ctx, err) {
		err = status.Errorf(status.Canceled, "it was interrupted; %s", afterInterrupt(cmd))
	}
	return a.report(err, taskOf(cmd))
}

// tokenFileUsed refuses --token-file for a command that sends no capability. The
// user meant another node, and the command would go to this machine's.
func tokenFileUsed(a *app, cmd *cobra.Command) error {
	if a.tokenFile == "" || a.api != "" {
		return nil
	}
	if throughGateway(cmd) {
		return nil
	}
	return failure.NewUsage("name another node with --api or, if the command has it, --gateway",
		"--token-file is given, and this machine's node takes no capability")
}
