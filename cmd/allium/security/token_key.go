package security

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/internal/lazyregexp"
	"allium/protocols/capability"
)

// capabilityID matches the id of a capability, or of a branch, as logs show it.
var capabilityID = lazyregexp.New(`^[0-9a-f]{32}$`)

func tokenRevokeCommand(a *cli.App) *cobra.Command {
	var key uint32
	var branch bool
	cmd := &cobra.Command{
		Use:   "revoke TOKEN|ID|BRANCH|-",
		Short: "End a capability before it expires",
		Long: `Revoke a capability, all capabilities that were narrowed from it, and those that it
was narrowed from. They share one id, which logs show. A running node refuses them
within a second.

--branch revokes only this capability and those narrowed from it. Two capabilities
that were narrowed with the same conditions are the same branch: to give several
people their own, let the expiry differ by a second, for example. "allium token
inspect" and the audit log show the id of a branch.

The list is capability.revoked in the home directory. Nodes that share a key need
the same list.`,
		Example: `  allium token revoke - < token
  allium token revoke 5d0f4e7d0c3c1f2a9b8e6d5c4b3a2910
  allium token revoke --branch - < smaller
  allium token revoke --key 3`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			byKey := cmd.Flags().Changed("key")
			if byKey != (len(arg) == 0) || byKey && (key == 0 || branch) {
				return failure.NewUsage(
					"give one of a capability, its id, its branch with --branch, or the number of a key with --key",
					"it is not clear what to revoke")
			}
			c, err := openCapabilities(a)
			if err != nil {
				return err
			}
			what := capability.RevokeKey(key)
			switch {
			case byKey:
			case capabilityID().MatchString(arg[0]) && branch:
				what, err = capability.RevokeBranchID(arg[0])
			case capabilityID().MatchString(arg[0]):
				what, err = capability.RevokeID(arg[0])
			default:
				what, err = revocationOf(a, arg[0], branch)
			}
			if err != nil {
				return err
			}
			if err := c.Revoke(cmd.Context(), what); err != nil {
				return err
			}
			human := ""
			if !a.Quiet {
				human = "revoked " + what.String()
			}
			return a.Print(map[string]string{"revoked": what.String()}, human)
		},
	}
	cmd.Flags().BoolVar(&branch, "branch", false, "revoke only this capability and those narrowed from it")
	cmd.Flags().Uint32Var(&key, "key", 0, "number of a key: revoke every capability made with it (default: none)")
	return cmd
}

// revocationOf returns the revocation of a capability, which a key of the home
// directory must have made.
func revocationOf(a *cli.App, arg string, branch bool) (capability.Revocation, error) {
	token, err := tokenArg(a, arg)
	if err != nil {
		return capability.Revocation{}, err
	}
	c, err := openCapabilities(a)
	if err != nil {
		return capability.Revocation{}, err
	}
	ring, err := c.Ring()
	if err != nil {
		return capability.Revocation{}, err
	}
	if _, err := ring.Identify(token); err != nil {
		return capability.Revocation{}, badToken(err)
	}
	if branch {
		return capability.RevokeBranch(token)
	}
	return capability.RevokeToken(token)
}

func tokenKeyCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "List, rotate and retire the keys that make capabilities",
		Long: `The keys are in capability.keys in the home directory. Nodes with the same file
accept each other's capabilities. Copy it to them privately after each change.`,
		Example: `  allium token key ls
  allium token key rotate
  allium token key retire 1`,
	}
	cmd.RunE = cli.Group
	cmd.AddCommand(
		&cobra.Command{
			Use:     "ls",
			Short:   "List the keys, without their secrets",
			Example: "  allium token key ls --json",
			Args:    cli.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				c, err := openCapabilities(a)
				if err != nil {
					return err
				}
				ring, err := c.Ring()
				if err != nil {
					return err
				}
				return printKeys(a, ring)
			},
		},
		&cobra.Command{
			Use:     "rotate",
			Short:   "Make a new key; capabilities of the old keys stay valid",
			Example: "  allium token key rotate",
			Args:    cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				c, err := openCapabilities(a)
				if err != nil {
					return err
				}
				ring, err := c.Rotate(cmd.Context())
				if err != nil {
					return err
				}
				return printKeys(a, ring)
			},
		},
		&cobra.Command{
			Use:     "retire KID",
			Short:   "Remove a key; capabilities made with it are refused from then on",
			Example: "  allium token key retire 1",
			Args:    cli.Args(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, arg []string) error {
				kid, err := strconv.ParseUint(arg[0], 10, 32)
				if err != nil {
					return failure.NewUsage("`allium token key ls` lists the keys",
						"%q is not the number of a key", arg[0])
				}
				c, err := openCapabilities(a)
				if err != nil {
					return err
				}
				ring, err := c.Retire(cmd.Context(), uint32(kid))
				if err != nil {
					return err
				}
				return printKeys(a, ring)
			},
		},
	)
	return cmd
}

// printKeys prints the keys of a ring.
func printKeys(a *cli.App, r capability.Ring) error {
	keys := r.Keys()
	var lines []string
	for _, k := range keys {
		line := fmt.Sprintf("%d  made %s", k.ID, k.Created.Format(time.RFC3339))
		if k.Current {
			line += "  current"
		}
		lines = append(lines, line)
	}
	if len(keys) == 0 && !a.Quiet {
		lines = append(lines, "no keys; the first `allium token mint` makes one")
	}
	return a.Print(map[string][]capability.Key{"keys": keys}, strings.Join(lines, "\n"))
}
