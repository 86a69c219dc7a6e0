// Package fetchsim plays transfers over hundreds of simulated providers in
// virtual time: the machine of resolver/schedule, without sockets, goroutines or
// bytes. It answers how long an object takes, and what came twice, among
// providers that are slow, silent, cut their answers short or lie.
//
// Invariants: a run is a function of its [Options], so the same seed gives the
// same report; a provider sends one group at a time, whatever is asked of it; the
// machine is told only what a node would know.
//
// The model. Each transfer has providers of its own. Their rates and round trips
// are lognormal around the medians that the options give. They become known one
// after the other, 20 ms apart, as from a lookup. A silent one never answers. A
// liar's first group is found to be false. A request is lost with the given
// probability: it is cut after some of its groups. The receiving link is no
// limit.
//
// One transfer, walked through: the machine asks for a provider, which is found;
// the size is proved by the first answer; each group that comes is marked in a
// bitmap, and the measured pace of its provider is told as the resolver would.
// The transfer ends when the machine says that all is here, or gives up.
package fetchsim

import (
	"context"
	"math/rand/v2"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Options are what a run depends on.
type Options struct {
	Transfers int           // 1 to 10,000
	Providers int           // of each object, 1 to 1,000
	AtOnce    int           // providers asked at the same time, 1 to 16
	Size      int64         // of each object in bytes, 1 to 64 GiB
	Rate      int64         // of a provider in bytes per second, the median, 1 KiB to 1 TiB
	RTT       time.Duration // to a provider, the median, 1 µs to 1 min
	Silent    float64       // share of the providers that never answer, 0 to 1
	Lies      float64       // share of the providers that send false bytes, 0 to 1
	Loss      float64       // share of the requests that are cut short, 0 to 0.9
	Seed      uint64

	Progress func(done, total int) // nil, or called with the transfers done
}

func (o Options) validate() error {
	for _, c := range []struct {
		ok   bool
		want string
	}{
		{o.Transfers >= 1 && o.Transfers <= 10_000, "1 to 10000 transfers"},
		{o.Providers >= 1 && o.Providers <= 1000, "1 to 1000 providers"},
		{o.AtOnce >= 1 && o.AtOnce <= 16, "1 to 16 providers at once"},
		{o.Size >= 1 && o.Size <= 64<<30, "a size of 1 byte to 64 GiB"},
		{o.Rate >= 1<<10 && o.Rate <= 1<<40, "a rate of 1 KiB/s to 1 TiB/s"},
		{o.RTT >= time.Microsecond && o.RTT <= time.Minute, "a round trip of 1 µs to 1 min"},
		{o.Silent >= 0 && o.Silent <= 1, "0 to 100 % silent providers"},
		{o.Lies >= 0 && o.Lies <= 1, "0 to 100 % lying providers"},
		{o.Loss >= 0 && o.Loss <= 0.9, "0 to 90 % loss"},
	} {
		if !c.ok {
			return status.Errorf(status.BadRequest, "fetchsim: give %s", c.want)
		}
	}
	return nil
}

// The model's numbers.
const (
	rateSpread   = 1.0                   // of the logarithm of rates: the middle two thirds are within a factor of e of the median
	rttSpread    = 0.5                   // likewise
	foundEvery   = 20 * time.Millisecond // a provider becomes known
	stallTimeout = 5 * time.Second       // resolver.stall_timeout
	tries        = 3                     // resolver.tries
	mostEvents   = 100_000_000           // of one transfer; a machine that needs more never ends
)

// Run simulates. It fails with bad_request for Options out of bounds and with
// canceled when ctx ends.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	t := tally{}
	for i := range o.Transfers {
		rng := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		w := newWorld(o, rng)
		if err := w.run(ctx); err != nil {
			return Report{}, err
		}
		t.count(w)
		if o.Progress != nil {
			o.Progress(i+1, o.Transfers)
		}
	}
	return t.report(o), nil
}

func (o Options) groups() int64 { return b3.Groups(o.Size) }
