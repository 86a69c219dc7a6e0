// Package dhtsim runs the lookups of protocols/kad over thousands of bare
// routing tables in virtual time: no hosts, no streams, no goroutine. It answers
// how many hops and RPCs a lookup needs, and how often it succeeds, in a network
// whose nodes leave and join all the time.
//
// Invariants: a run is a function of its [Options], so the same seed gives the
// same report; an answer names only what the table of the answering node holds
// at that moment; a node that has left never answers, and nobody is told that it
// has left: a lookup finds out by time, a refresh by asking.
//
// The model. Nodes have ideal tables (k random peers of each bucket) at the
// start and keep them themselves from then on: who answers gets into the table
// of who asked and the reverse, if its bucket has room; who fails leaves it. A
// node joins through one random peer and looks up itself. Every ten minutes a
// node asks all its peers for a sign of life, looks up itself, and fills buckets
// that have room with one question each. Round trips are lognormal, median 60 ms.
//
// One run, walked through: [Run] makes the nodes, publishes 1,000 keys on their
// k closest with patient lookups, spreads the lookups over one hour of churn,
// each by a random node for the first provider of a random key, and with
// Options.Dead then ends that share of the nodes at once and watches the success
// of further lookups for 300 s.
package dhtsim

import (
	"context"
	"time"

	"allium/protocols/kad"
	"allium/protocols/status"
)

// Options are what a run depends on.
type Options struct {
	Nodes   int     // 50 to 100,000
	Lookups int     // 1 to 10,000,000
	Churn   float64 // share of the nodes that leaves in an hour, 0 to 10; as many join
	Dead    float64 // share of the nodes that ends at once after the hour, 0 to 0.9
	Seed    uint64

	Progress func(done, total int) // nil, or called now and then with the lookups done
}

func (o Options) validate() error {
	switch {
	case o.Nodes < 50 || o.Nodes > 100_000:
		return status.Errorf(status.BadRequest, "dhtsim: %d nodes: give 50 to 100000", o.Nodes)
	case o.Lookups < 1 || o.Lookups > 10_000_000:
		return status.Errorf(status.BadRequest, "dhtsim: %d lookups: give 1 to 10000000", o.Lookups)
	case !(o.Churn >= 0 && o.Churn <= 10):
		return status.Errorf(status.BadRequest, "dhtsim: churn of %g %%/h: give 0 to 1000", o.Churn*100)
	case !(o.Dead >= 0 && o.Dead <= 0.9):
		return status.Errorf(status.BadRequest, "dhtsim: %g %% dead: give 0 to 90", o.Dead*100)
	}
	return nil
}

// The course of a run, in simulated time.
const (
	warmUp      = time.Minute // for publishing
	measured    = time.Hour
	window      = 30 * time.Second // of recovery
	windows     = 10
	refreshTime = 10 * time.Minute // as go-libp2p-kad-dht
	maxKeys     = 1000
	recovered   = 0.99 // of the lookups succeed
)

// Run simulates. It fails with bad_request for Options out of bounds and with
// canceled when ctx ends.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	w := newWorld(o)
	end := warmUp + measured
	for i := range min(maxKeys, o.Nodes) {
		w.at(w.within(0, warmUp/2), event{kind: publish, id: int32(i)})
	}
	for i := range o.Lookups {
		at := warmUp + time.Duration(float64(measured)*float64(i)/float64(o.Lookups))
		w.at(at, event{kind: find})
	}
	if o.Dead > 0 {
		struck := end + kad.Find().Deadline // the last lookup has ended
		w.at(struck, event{kind: disaster})
		each := max(o.Lookups/100, 200)
		for i := range each * windows {
			w.at(struck+time.Duration(i)*window/time.Duration(each), event{kind: find})
		}
		end = struck + windows*window
	}
	w.end = end
	if err := w.run(ctx); err != nil {
		return Report{}, err
	}
	return w.report(), nil
}
