package naming

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/protocols/name"
)

// NameCommand returns `allium name`.
func NameCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "name",
		Short: "Publish names, list those that are published, and watch any",
		Long: `Publish what a name stands for. A name is LABEL.ZONE, where ZONE is a key of which
this home directory has the private half, or its short name; LABEL alone is in the
only own zone. ` + "`allium zone new`" + ` makes a zone, and ` + "`allium resolve`" + ` shows what a name
stands for. The commands need a running node.`,
		Example: `  allium name publish blog $ADDRESS
  allium name ls
  allium name watch blog.site
  allium name withdraw blog`,
	}
	cmd.AddCommand(namePublishCommand(a), nameWithdrawCommand(a), nameLsCommand(a), nameLinkCommand(a),
		nameWatchCommand(a))
	return cmd
}

// inZone returns the name that the argument and the flag --zone say.
func inZone(label, zone string) (string, error) {
	if zone == "" {
		return label, nil
	}
	if strings.Contains(label, ".") {
		return "", failure.NewUsage("give a label alone with --zone", "%s has a zone already", term.Quote(label))
	}
	return label + "." + zone, nil
}

func namePublishCommand(a *cli.App) *cobra.Command {
	var zone, life string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "publish NAME VALUE",
		Short: "Publish what a name stands for",
		Long: `Sign a record that says what a name stands for, write it to the home directory, and
send it to the peers closest to the name. VALUE is an address (b3:… or its digits
alone, also with a path below it), another name with the key of its zone, or text.
Publish again to replace it.

If no peer takes the record, the node sends it again later, also after a restart. It
signs the record again when half of its life has passed, as long as it runs and has
the key. Other peers pass the record on until it expires.`,
		Example: `  allium name publish blog $ADDRESS
  allium name publish blog.site $ADDRESS/2026 --ttl 5m --life 30d
  allium name publish --zone site motd 'back on Monday'`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			full, err := inZone(arg[0], zone)
			if err != nil {
				return err
			}
			r := api.PublishRequest{Name: full, Value: arg[1], TTLMS: ttl.Milliseconds()}
			if r.LifeMS, err = lifeMS(life); err != nil {
				return err
			}
			if ttl <= 0 {
				return failure.NewUsage("give 5s to 24h", "--ttl is %s", ttl)
			}
			if arg[1] == "" {
				return failure.NewUsage("use `allium name withdraw` to take a name back", "the value is empty")
			}
			own, err := n.PublishName(ctx, r)
			if err != nil {
				return err
			}
			return a.Print(own, Published(own, a.Quiet))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&zone, "zone", "",
		"zone to publish in, a key or a short name (default: the one in NAME, or the only own zone)")
	f.DurationVar(&ttl, "ttl", name.DefaultTTL, "time that others may keep an answer before they ask again, 5s to 24h")
	f.StringVar(&life, "life", "7d", "time until the record expires if it is not signed again, 10m to 30d")
	return cmd
}

// lifeMS parses a number of days such as 7d, or a duration such as 12h, and returns milliseconds.
func lifeMS(s string) (int64, error) {
	unit := s
	factor := time.Duration(1)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		unit, factor = days+"h", 24
	}
	d, err := time.ParseDuration(unit)
	if err != nil || d <= 0 || d > name.MaxLife || d*factor > name.MaxLife {
		return 0, failure.NewUsage("give 10m to 30d", "--life is %s", term.Quote(s))
	}
	return (d * factor).Milliseconds(), nil
}

func nameWithdrawCommand(a *cli.App) *cobra.Command {
	var zone string
	cmd := &cobra.Command{
		Use:   "withdraw NAME",
		Short: "Publish that a name stands for nothing any more",
		Long: `Sign a record without a value, write it to the home directory, and send it to the
peers. It lives for 30 days, longer than any record of the name that was signed before.`,
		Example: `  allium name withdraw blog`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			full, err := inZone(arg[0], zone)
			if err != nil {
				return err
			}
			own, err := n.WithdrawName(ctx, api.WithdrawRequest{Name: full})
			if err != nil {
				return err
			}
			return a.Print(own, Published(own, a.Quiet))
		}),
	}
	cmd.Flags().StringVar(&zone, "zone", "",
		"zone of the name, a key or a short name (default: the one in NAME, or the only own zone)")
	return cmd
}

func nameLinkCommand(a *cli.App) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use:   "link KEY|DOMAIN",
		Short: "Print the DNS records that link a domain to a name or an address",
		Long: `Print the DNS records that a domain needs to be a website of this node: the TXT record
that links it to a name, which stays when the name gets another value, or to an address,
and those that lead browsers to the public addresses of this node, as far as they are
known. With a domain alone it is linked to the only name that this node publishes. Nodes
with names.dns = true understand the domain as a key. Nobody signs the records: whoever
answers for the domain decides. ` + "`allium doctor site`" + ` says whether they are right.`,
		Example: `  allium name link www.example.org
  allium name link blog --domain www.example.org
  allium name link $ADDRESS`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			link, err := LinkOf(ctx, n, arg[0], domain)
			if err != nil {
				return err
			}
			return a.Print(link, link.Zone(a.Quiet))
		}),
	}
	cmd.Flags().StringVar(&domain, "domain", "",
		"domain that gets the records (default: the argument if it is a domain, else example.org)")
	return cmd
}

func nameLsCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the names that this node publishes",
		Long: `List the names that this node publishes: each with its value, until when the record
is valid, how many peers took it when it was sent last, and when it is sent or signed
again. A name that was withdrawn stays in the list until that record expires.

superseded means that another holder of the key published a newer record, and
equivocation that another one signed a different value with the same number. Neither
is sent any more until you publish the name again.`,
		Example: `  allium name ls
  allium name ls --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, _ []string) error {
			found := false
			for own, err := range n.OwnNames(ctx) {
				if err != nil {
					return err
				}
				found = true
				if err := a.Print(own, Own(own, a.Quiet)); err != nil {
					return err
				}
			}
			if !found && !a.JSON && !a.Quiet {
				return a.Print(nil, "no names; `allium name publish` publishes one")
			}
			return nil
		}),
	}
}
