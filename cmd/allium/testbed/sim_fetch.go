package testbed

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/testnet/fetchsim"
)

func simFetchCommand(a *cli.App) *cobra.Command {
	var o fetchsim.Options
	size, rate := term.Size(256<<20), term.Size(10<<20)
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Measure transfers from hundreds of simulated providers",
		Long: `Run this program's transfers over simulated providers in virtual time, without
sockets or bytes. Each transfer has its own providers. Their rates and round-trip
times are spread around the medians given, and the transfer learns of them one
after the other. Print how long a transfer takes, which share of its providers'
rates it uses, and how many bytes came twice. The same seed gives the same numbers.

A silent provider never answers. The bytes of a liar fail their proof. A lost
request is cut after some of its bytes.`,
		Example: `  allium sim fetch
  allium sim fetch --providers 200 --silent 20% --lies 10% --loss 5% --seed 7
  allium sim fetch --size 1GiB --rate 2MiB --rtt 200ms --transfers 20 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Size, o.Rate = int64(size), int64(rate)
			return simFetch(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Transfers, "transfers", 100, "number of transfers, one after the other, 1 to 10000")
	f.IntVarP(&o.Providers, "providers", "n", 100, "number of providers of each object, 1 to 1000")
	f.IntVar(&o.AtOnce, "at-once", 4, "number of providers that a transfer asks at the same time, 1 to 16")
	f.Var(&size, "size", "size of each object, such as 256MiB")
	f.Var(&rate, "rate", "median rate of a provider, in bytes a second, such as 10MiB")
	f.DurationVar(&o.RTT, "rtt", 50*time.Millisecond, "median round-trip time to a provider")
	f.Var(&percent{&o.Silent, ""}, "silent", "share of the providers that never answer")
	f.Var(&percent{&o.Lies, ""}, "lies", "share of the providers that send false bytes")
	f.Var(&percent{&o.Loss, ""}, "loss", "share of the requests that are cut short, up to 90%")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the random numbers")
	return cmd
}

func simFetch(ctx context.Context, a *cli.App, o fetchsim.Options) error {
	report, finish := a.Bar("simulating", false)
	if report != nil {
		o.Progress = func(done, total int) { report(api.Progress{Objects: int64(done), TotalObjects: int64(total)}) }
	}
	r, err := fetchsim.Run(ctx, o)
	finish()
	if err != nil {
		return err
	}
	if a.JSON {
		return a.Print(r, "")
	}
	return r.WriteText(a.Stdout)
}
