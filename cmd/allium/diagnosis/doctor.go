package diagnosis

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/node"
	"allium/node/config"
	"allium/node/doctor"
	homedir "allium/node/home"
	"allium/node/p2p"
	"allium/node/website"
	"allium/protocols/status"
)

// DoctorCommand returns `allium doctor`.
func DoctorCommand(a *cli.App) *cobra.Command {
	var who, bundle string
	var all, force bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what keeps the node from its work, and what to do",
		Long: `Say what is wrong with the node, its home directory, its configuration, its disk, its
machine and its network, what follows and what to do, within 5 s. No node need run. It
ends with 0 if there is nothing worse than a note, with 5 for warnings and with 69 for
errors. docs/running/doctor.md lists the checks.

With --peer: let the running node dial one peer, and say on which side the fault is.
With --bundle: write a file for a bug report, without keys, names and addresses.`,
		Example: `  allium doctor --all
  allium doctor --peer /ip4/203.0.113.7/tcp/4901/p2p/$PEER
  allium doctor --bundle report.tar.gz`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case who != "" && bundle != "":
				return failure.NewUsage("leave one of them out", "--peer is about a peer, and --bundle about this node")
			case force && bundle == "":
				return failure.NewUsage("leave it out", "--force replaces the file of --bundle")
			case who != "":
				return doctorPeer(cmd.Context(), a, who)
			}
			return doctorNode(cmd.Context(), a, bundle, force, all)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&all, "all", "v", false, "list also the checks that found nothing, and those that were not possible")
	f.StringVar(&who, "peer", "", "peer id, multiaddr or ticket of a peer that is not reached (default: none)")
	f.StringVar(&bundle, "bundle", "", "file (.tar.gz) to write for a bug report (default: none)")
	f.BoolVar(&force, "force", false, "replace the file of --bundle")
	cmd.AddCommand(doctorSiteCommand(a), &cobra.Command{
		Use:   "reach",
		Short: "Say who can dial this node, and what to open if few can",
		Long: `Say from where this node can be dialled: what peers found of each address, and what
to open in a firewall or forward in a router.

Peers that are asked to (AutoNAT v2) dial the addresses of this node on the
Internet; that begins when it is connected to one, and takes some seconds. Which
peer confirmed an address is not known. Local addresses are not checked.`,
		Example: "  allium doctor reach\n  allium doctor reach --json",
		Args:    cli.NoArgs,
		RunE: a.OnNode(func(ctx context.Context, n api.Node, _ []string) error {
			return PrintReach(ctx, a, n, Reach)
		}),
	})
	return cmd
}

func doctorSiteCommand(a *cli.App) *cobra.Command {
	port, server := 443, ""
	cmd := &cobra.Command{
		Use:   "site DOMAIN",
		Short: "Say which step from a domain to its website fails",
		Long: `Take the steps of a browser to the website of a domain, within 10 s, and say which fails:
its addresses in the DNS, whether they are this node's, the port, the certificate, the TXT
record that links it to a name, and the page. What to do is said for each. The node need
not run, but knows its addresses and resolves the name. It ends as ` + "`allium doctor`" + ` does.`,
		Example: "  allium doctor site www.example.org\n  allium doctor site www.example.org --dns 1.1.1.1",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			n, err := a.Node()
			if err != nil {
				return err
			}
			defer n.Close()
			var running website.Node = n
			if _, err := n.ID(cmd.Context()); errors.Is(err, client.ErrNotRunning) {
				running = nil
			}
			d, err := website.This(arg[0], port, server, running)
			if err != nil {
				return err
			}
			defer a.Wait("looking")()
			r := website.Diagnose(cmd.Context(), d)
			if err := a.Print(r, Site(r, a.Quiet)); err != nil {
				return err
			}
			return failure.Found(SiteVerdict(r))
		},
	}
	cmd.Flags().IntVar(&port, "port", port, "port of the website")
	cmd.Flags().StringVar(&server, "dns", "", "address of the DNS server to ask (default: that of the system)")
	return cmd
}

// PrintReach prints what the node knows of its addresses, as written by human.
func PrintReach(ctx context.Context, a *cli.App, n api.Node, human func(r api.Reach, quiet bool) string) error {
	r, err := n.Reach(ctx)
	if err != nil {
		return err
	}
	return a.Print(r, human(r, a.Quiet))
}

// doctorNode examines the node, and prints what was found or writes it to the file bundle.
func doctorNode(ctx context.Context, a *cli.App, bundle string, force, all bool) error {
	if bundle != "" {
		if err := cli.CheckOutput(bundle); err != nil {
			return err
		}
	}
	d, n, err := doctorDeps(a)
	if err != nil {
		return err
	}
	defer n.Close()
	report, finish := a.Bar("examining", false)
	r, facts := doctor.Run(ctx, d, report)
	finish()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if bundle != "" {
		err := doctor.SaveBundle(bundle, force, func(w io.Writer) error { return doctor.WriteBundle(w, d, facts) })
		if err != nil {
			return failure.In(bundle, err)
		}
		return a.Print(map[string]any{"bundle": bundle, "worst": r.Worst},
			a.Loud("written to "+bundle+": look at it before you send it"))
	}
	if err := a.Print(r, Findings(r, all, a.Quiet)); err != nil {
		return err
	}
	return failure.Found(Verdict(r))
}

// doctorDeps returns what an examination looks at, and the client of the node, which the caller closes.
func doctorDeps(a *cli.App) (doctor.Deps, *client.Client, error) {
	d := doctor.Deps{
		Version: node.ThisVersion(), Now: time.Now, Machine: doctor.ThisMachine(), Network: doctor.ThisNetwork(),
	}
	d.Config.Config = config.Default(p2p.Desktop)
	if a.API == "" {
		home, err := a.HomeDir()
		if err != nil && !errors.Is(err, homedir.ErrNone) { // a node without files has a socket alone
			return d, nil, err
		}
		if err == nil {
			d.Home = home
		}
		cfg, err := a.LoadAt(home, nil)
		if d.ConfigErr = err; err == nil {
			d.Config = cfg
			d.Check = func(ctx context.Context) error { return node.Check(ctx, home, cfg.Config) }
			d.Sample = func(ctx context.Context) (api.StoreSample, error) {
				return node.SampleStore(ctx, home, cfg.Config)
			}
		}
	}
	n, err := a.Node()
	if err != nil {
		return d, nil, err
	}
	d.Node = n
	d.Metrics = func(ctx context.Context) ([]byte, error) { return client.Metrics(ctx, n) }
	return d, n, nil
}

// doctorPeer says what is in the way to a peer: its id, multiaddr or ticket.
func doctorPeer(ctx context.Context, a *cli.App, text string) error {
	who, err := doctor.ParseWho(text)
	if err != nil {
		return failure.In("--peer", err)
	}
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	defer a.Wait("dialling")()
	own, _ := doctor.ThisMachine().Interfaces() // without them no address counts as one of another network
	d, err := doctor.Diagnose(ctx, n, who, own)
	if err != nil {
		return err
	}
	if err := a.Print(d, Way(d, a.Quiet)); err != nil || d.Good() {
		return err
	}
	return failure.Found(status.Errorf(status.TransportDown, "the peer is not reached directly; %s", d.Fix))
}
