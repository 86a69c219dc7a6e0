package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/testnet/fetchsim"
)

func (a *app) simFetchCommand() *cobra.Command {
	var o fetchsim.Options
	size, rate := byteSize(256<<20), byteSize(10<<20)
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Measure transfers from hundreds of simulated providers",
		Long: `Run this program's transfers over simulated providers in virtual time: no sockets
and no bytes. Each transfer has providers of its own, whose rates and round trips
are spread around the medians given, and which become known one after the other.
Print how long a transfer takes, how much of its providers' pace it uses, and
what came twice. The same seed gives the same numbers.

A silent provider never answers; a liar's bytes are found to be false; a lost
request is cut after some of its bytes.`,
		Example: `  allium sim fetch
  allium sim fetch --providers 200 --silent 20% --lies 10% --loss 5% --seed 7
  allium sim fetch --size 1GiB --rate 2MiB --rtt 200ms --transfers 20 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Size, o.Rate = int64(size), int64(rate)
			return a.simFetch(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Transfers, "transfers", 100, "how many, one after the other, 1 to 10000")
	f.IntVarP(&o.Providers, "providers", "n", 100, "of each object, 1 to 1000")
	f.IntVar(&o.AtOnce, "at-once", 4, "providers asked at the same time, 1 to 16")
	f.Var(&size, "size", "of each object")
	f.Var(&rate, "rate", "of a provider, a second, the median")
	f.DurationVar(&o.RTT, "rtt", 50*time.Millisecond, "to a provider and back, the median")
	f.Var(&percent{&o.Silent, ""}, "silent", "share of the providers that never answer")
	f.Var(&percent{&o.Lies, ""}, "lies", "share of the providers that send false bytes")
	f.Var(&percent{&o.Loss, ""}, "loss", "share of the requests that are cut short, up to 90%")
	f.Uint64Var(&o.Seed, "seed", 1, "of everything random")
	return cmd
}

func (a *app) simFetch(ctx context.Context, o fetchsim.Options) error {
	report, finish := a.bar("simulating", false)
	if report != nil {
		o.Progress = func(done, total int) { report(api.Progress{Bytes: int64(done), TotalBytes: int64(total)}) }
	}
	r, err := fetchsim.Run(ctx, o)
	finish()
	if err != nil {
		return err
	}
	if a.json {
		return a.print(r, "")
	}
	return r.WriteText(a.stdout)
}

// byteSize is a flag like 256MiB.
type byteSize limits.Bytes

func (b *byteSize) Type() string { return "size" }

func (b *byteSize) String() string { return limits.Bytes(*b).String() }

func (b *byteSize) Set(s string) error {
	n, err := limits.ParseBytes(s)
	*b = byteSize(n)
	return err
}
