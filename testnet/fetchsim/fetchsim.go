// Package fetchsim simulates downloads from hundreds of providers in virtual time. It
// runs the state machine of resolver/schedule without sockets, goroutines or bytes. It
// measures how long an object takes, and how many bytes arrive twice, if providers are
// slow, silent or lying, or cut their answers short.
//
// # Invariants
//
//   - A run is a function of its [Options]: the same seed gives the same report.
//   - A provider sends one group at a time, however many requests it has.
//   - The machine receives only information that a node would have.
//
// # The model
//
// Each transfer has its own providers. Their rates and round trips are lognormal around
// the medians in the options. They become known one after the other, 20 ms apart, as in
// a lookup. A silent provider never answers. The first group of a lying provider fails
// verification. A request is cut after some of its groups with the given probability.
// The receiver's link has no limit.
//
// # One transfer, walked through
//
// [Run] makes a world, and world.run plays its events in order of time. The machine
// wants a provider, and find makes one known. ask sends a request. The first answer
// proves the size (first), and group marks each group that arrives in a bitmap. advance
// passes the progress of each request, and the measured rate and round trip of each
// provider, to the machine. The transfer ends when the machine has the whole object or
// gives up.
package fetchsim

import (
	"context"
	"math/rand/v2"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Options are the parameters of a run.
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

	Progress func(done, total int) // called after each transfer; may be nil
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
			return status.Errorf(status.BadRequest, "an option is out of range; give %s", c.want)
		}
	}
	return nil
}

// The model's numbers.
const (
	rateSpread   = 1.0                   // of ln(rate): two thirds of the rates are within a factor of e of the median
	rttSpread    = 0.5                   // likewise
	foundEvery   = 20 * time.Millisecond // interval at which providers become known
	stallTimeout = 5 * time.Second       // resolver.stall_timeout
	tries        = 3                     // resolver.tries
	maxEvents    = 100_000_000           // events of one transfer; a machine that needs more never ends
)

// Run simulates the transfers and returns what it measured. It returns bad_request if
// an option is out of bounds, and canceled if ctx ends.
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
