package security

import (
	"bytes"
	"cmp"
	"path/filepath"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	homedir "allium/node/home"
	"allium/protocols/ticket"
)

// SwarmKeyCommand returns `allium swarm-key`.
func SwarmKeyCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "swarm-key",
		Short: "Make and show the key of a private network",
		Long: `Nodes with the same swarm key are a private network: they talk with each other and
with nobody else. The key is a file in kubo's format, which node.swarm_key names.
Whoever has it can join. A network is told from others by its fingerprint, which is
no secret.`,
		Example: `  allium swarm-key new
  allium swarm-key show`,
	}
	cmd.RunE = cli.Group
	cmd.AddCommand(swarmKeyNewCommand(a), swarmKeyShowCommand(a))
	return cmd
}

// swarmKey is the output of the commands about a key.
type swarmKey struct {
	Network string `json:"network"` // the fingerprint
	File    string `json:"file"`
	Key     string `json:"key,omitempty"` // the text of the file, if it was asked for
}

func swarmKeyNewCommand(a *cli.App) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "new [FILE]",
		Short: "Make the key of a new private network",
		Long: `Make a key and write it to FILE, by default swarm.key in the home directory, with
mode 0600. Copy the file to each node of the network over a private channel, and
name it there in node.swarm_key. Each node then takes a restart.

A file that exists is left as it is. --force replaces it: nodes that have the old
key are then no longer of the same network.`,
		Example: `  allium swarm-key new
  ALLIUM_NODE__SWARM_KEY=swarm.key allium run`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, arg []string) error {
			file, err := newSwarmKeyFile(a, arg)
			if err != nil {
				return err
			}
			psk, err := homedir.NewSwarmKey(file, force)
			if err != nil {
				return err
			}
			made := swarmKey{Network: ticket.NetworkOf(psk).String(), File: file}
			human := made.Network
			if !a.Quiet {
				human += "\nthe key is in " + file + ": copy it to each node of the network, over a private channel" +
					"\nset node.swarm_key to its name on each, and restart"
			}
			return a.Print(made, human)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return cmd
}

func swarmKeyShowCommand(a *cli.App) *cobra.Command {
	var secret bool
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print the fingerprint of a private network",
		Long: `Print the fingerprint of the network whose key is in FILE, by default the file that
node.swarm_key names, else swarm.key in the home directory. Nodes with the same
fingerprint have the same key. --secret prints the key itself, to copy it.`,
		Example: `  allium swarm-key show
  allium swarm-key show --secret | ssh server 'umask 077; cat > .allium/swarm.key'`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, arg []string) error {
			file, err := swarmKeyFile(a, arg)
			if err != nil {
				return err
			}
			psk, err := homedir.SwarmKey(file)
			if err != nil {
				return err
			}
			shown := swarmKey{Network: ticket.NetworkOf(psk).String(), File: file}
			human := shown.Network
			switch {
			case secret:
				text := homedir.EncodeSwarmKey(psk)
				shown.Key, human = string(text), string(bytes.TrimSpace(text))
			case !a.Quiet:
				human += "\nthe key is in " + file
			}
			return a.Print(shown, human)
		},
	}
	cmd.Flags().BoolVar(&secret, "secret", false, "print the key itself, which lets anybody join the network")
	return cmd
}

// newSwarmKeyFile returns the file that a command line names, or that of a new key of the home directory.
func newSwarmKeyFile(a *cli.App, arg []string) (string, error) {
	if len(arg) == 0 {
		home, err := a.HomeDir()
		return filepath.Join(home, homedir.SwarmKeyFile), err
	}
	file, err := filepath.Abs(arg[0])
	if err != nil {
		return "", err
	}
	return file, cli.CheckNewFile(file)
}

// swarmKeyFile returns the file that a command line names, or the one that a node of the home directory
// uses.
func swarmKeyFile(a *cli.App, arg []string) (string, error) {
	if len(arg) == 1 {
		return filepath.Abs(arg[0])
	}
	cfg, home, err := a.Load()
	if err != nil {
		return "", err
	}
	return homedir.Path(home, cmp.Or(cfg.Node.SwarmKey, homedir.SwarmKeyFile)), nil
}
