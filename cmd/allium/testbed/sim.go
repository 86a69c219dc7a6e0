package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/gateway/api"
	"allium/testnet/dhtsim"
)

// SimCommand returns `allium sim`.
func SimCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sim",
		Short:   "Simulate large networks in virtual time",
		Example: "  allium sim dht -n 10000\n  allium sim fetch --providers 200",
	}
	cmd.AddCommand(simDHTCommand(a), simFetchCommand(a))
	return cmd
}

func simDHTCommand(a *cli.App) *cobra.Command {
	o := dhtsim.Options{Churn: 0.1}
	var plot string
	cmd := &cobra.Command{
		Use:   "dht",
		Short: "Measure lookups in a simulated network of thousands of nodes",
		Long: `Run this program's lookups over routing tables without sockets, for one hour of
virtual time, while nodes fail and others join. Print how many hops and requests a
lookup takes, and how often it finds a provider that was placed before. The same
seed gives the same numbers.

Hops are counted to the first answer from one of the 20 closest live nodes; the
node's own table is hop 1. With --dead, that share of the nodes fails at the end of
the hour, and success is measured for 300 s more.`,
		Example: `  allium sim dht
  allium sim dht -n 10000 --lookups 100000 --churn 10%/h --dead 20% --seed 7
  allium sim dht -n 1000 --lookups 10000 -o hops.svg --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return simDHT(cmd.Context(), a, o, plot) },
	}
	f := cmd.Flags()
	f.IntVarP(&o.Nodes, "nodes", "n", 10_000, "number of nodes, 50 to 100000")
	f.IntVar(&o.Lookups, "lookups", 100_000, "number of lookups, spread over the hour")
	f.Var(&percent{&o.Churn, "/h"}, "churn", "share of the nodes that fails in an hour; as many join")
	f.Var(&percent{&o.Dead, ""}, "dead", "share of the nodes that fails at the end of the hour")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the random numbers")
	f.StringVarP(&plot, "output", "o", "", "SVG file for the histograms (default: none)")
	return cmd
}

func simDHT(ctx context.Context, a *cli.App, o dhtsim.Options, plot string) (err error) {
	var svg *os.File
	if plot != "" { // an error before the work costs nothing
		if svg, err = cli.CreateOutput("-o", plot); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, svg.Close()) }()
	}
	report, finish := a.Bar("simulating", false)
	if report != nil {
		o.Progress = func(done, total int) { report(api.Progress{Objects: int64(done), TotalObjects: int64(total)}) }
	}
	r, err := dhtsim.Run(ctx, o)
	finish()
	if err != nil {
		return err
	}
	if svg != nil {
		if err := r.WriteSVG(svg); err != nil {
			return err
		}
	}
	if a.JSON {
		return a.Print(r, "")
	}
	return r.WriteText(a.Stdout)
}

// percent is a flag such as 20%, or 10%/h with the unit /h.
type percent struct {
	share *float64
	unit  string
}

func (p *percent) Type() string { return "percent" }

func (p *percent) String() string {
	if p.share == nil { // pflag calls it on a zero value
		return ""
	}
	return strconv.FormatFloat(*p.share*100, 'g', -1, 64) + "%" + p.unit
}

func (p *percent) Set(s string) error {
	number, ok := strings.CutSuffix(strings.TrimSuffix(s, p.unit), "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		return fmt.Errorf("a percentage is written like 10%%%s", p.unit)
	}
	*p.share = v / 100
	return nil
}
