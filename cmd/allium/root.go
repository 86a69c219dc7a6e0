package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/daemon"
	"allium/cmd/allium/diagnosis"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/fileio"
	"allium/cmd/allium/naming"
	"allium/cmd/allium/network"
	"allium/cmd/allium/packs"
	"allium/cmd/allium/reference"
	"allium/cmd/allium/replication"
	"allium/cmd/allium/security"
	"allium/cmd/allium/settings"
	"allium/cmd/allium/source"
	"allium/cmd/allium/storage"
	"allium/cmd/allium/testbed"
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

// command is a command of the program, and the function that builds it.
type command struct {
	name  string
	build func(*cli.App) *cobra.Command
}

// group holds the commands that stand together in the help.
type group struct {
	id, title string
	commands  []command
}

// has reports whether the group has a command of that name.
func (g group) has(name string) bool {
	return slices.ContainsFunc(g.commands, func(c command) bool { return c.name == name })
}

// groups are the commands of the program in the order of the help.
var groups = []group{
	{groupFiles, "Store and fetch", []command{
		{"add", fileio.AddCommand}, {"get", fileio.GetCommand}, {"share", fileio.ShareCommand},
		{"cat", fileio.CatCommand}, {"ls", fileio.LsCommand}, {"diff", fileio.DiffCommand},
		{"pin", storage.PinCommand}, {"verify", storage.VerifyCommand},
	}},
	{groupFind, "Find", []command{
		{"resolve", network.ResolveCommand}, {"providers", network.ProvidersCommand},
		{"peers", network.PeersCommand}, {"seeds", network.SeedsCommand}, {"connect", network.ConnectCommand},
		{"disconnect", network.DisconnectCommand}, {"ping", network.PingCommand},
	}},
	{groupShare, "Share", []command{
		{"publish", naming.PublishCommand}, {"follow", naming.FollowCommand}, {"announce", network.AnnounceCommand},
		{"token", security.TokenCommand}, {"zone", naming.ZoneCommand}, {"name", naming.NameCommand},
		{"pack", packs.PackCommand},
	}},
	{groupRun, "Run a node", []command{
		{"init", daemon.InitCommand}, {"run", daemon.RunCommand}, {"node", daemon.NodeCommand},
		{"config", settings.ConfigCommand}, {"swarm-key", security.SwarmKeyCommand}, {"gc", storage.GCCommand},
		{"store", storage.StoreCommand},
	}},
	{groupInspect, "Look inside", []command{
		{"id", network.IDCommand}, {"stat", storage.StatCommand}, {"durability", replication.DurabilityCommand},
		{"limits", diagnosis.LimitsCommand}, {"why", diagnosis.WhyCommand}, {"doctor", diagnosis.DoctorCommand},
		{"audit", security.AuditCommand}, {"version", daemon.VersionCommand},
	}},
	{groupTry, "Try it out", []command{
		{"testnet", testbed.TestnetCommand}, {"sim", testbed.SimCommand},
	}},
}

// rootCommand builds the tree of commands. If the first of words is a command, it builds only that one: to build
// all of them takes a tenth of the time and memory of a short command.
func rootCommand(a *cli.App, words ...string) *cobra.Command {
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
	f.StringVar(&a.Home, "home", "", "directory of the node (default $ALLIUM_HOME, else ~/.allium)")
	f.StringVar(&a.ConfigFile, "config", "", "configuration file (default config.toml in the home directory)")
	f.BoolVar(&a.JSON, "json", false, "print one JSON value a line, for programs")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print only what a script needs: no progress, no names")
	f.StringVar(&a.LogLevel, "log-level", "",
		"lowest level that is logged: debug, info, warn or error; with debug an error shows its causes (default "+
			"log.level)")
	f.StringVar(&a.LogFormat, "log-format", "", "format of the log: text or json (default log.format)")
	f.StringVar(&a.API, "api", "",
		"URL of another machine's admin listener, through a tunnel: http://host:port (default: the home "+
			"directory's node)")
	f.StringVar(&a.TokenFile, "token-file", "",
		"file with the capability to send with --api or --gateway; - is standard input (default $ALLIUM_TOKEN)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return tokenFileUsed(a, cmd) }
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetVersionTemplate("allium {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	named := firstWord(words, f)
	one := slices.ContainsFunc(groups, func(g group) bool { return g.has(named) })
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, c := range g.commands {
			if !one || c.name == named {
				cmd := c.build(a)
				cmd.GroupID = g.id
				root.AddCommand(cmd)
			}
		}
	}
	root.AddGroup(&cobra.Group{ID: groupHelp, Title: "Get help:"})
	root.SetHelpCommandGroupID(groupHelp)
	root.SetCompletionCommandGroupID(groupHelp)
	root.AddCommand(reference.DocsCommand())
	cobraCommands(root)
	walk(root, func(c *cobra.Command) {
		if c.HasSubCommands() && c.RunE == nil {
			c.RunE, c.Args = cli.Group, cobra.ArbitraryArgs
		}
	})
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate(), a.Columns))
	return root
}

// firstWord returns the first word of a command line that is neither a flag nor the value of one of f.
func firstWord(words []string, f *pflag.FlagSet) string {
	for i := 0; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			return words[i]
		}
		if flag := f.Lookup(strings.TrimPrefix(words[i], "--")); flag != nil && flag.NoOptDefVal == "" {
			i++
		}
	}
	return ""
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
					return cli.UnknownCommand(about, rest[0])
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
func execute(ctx context.Context, a *cli.App, args []string) int {
	root := rootCommand(a, args...)
	if strings.Contains(strings.Join(args, " "), cobra.ShellCompRequestCmd) {
		completions(a, root)
	}
	root.SetArgs(replication.WithNumbers(args))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if failure.Interrupted(ctx, err) {
		err = status.Errorf(status.Canceled, "it was interrupted; %s", source.AfterInterrupt(cmd))
	}
	return a.Report(err, taskOf(cmd))
}

// tokenFileUsed refuses --token-file for a command that sends no capability. The
// user meant another node, and the command would go to this machine's.
func tokenFileUsed(a *cli.App, cmd *cobra.Command) error {
	if a.TokenFile == "" || a.API != "" {
		return nil
	}
	if source.ThroughGateway(cmd) {
		return nil
	}
	return failure.NewUsage("name another node with --api or, if the command has it, --gateway",
		"--token-file is given, and this machine's node takes no capability")
}
