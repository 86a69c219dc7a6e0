// Package dhtsim simulates DHT lookups in virtual time. It runs the lookups of
// protocols/kad over thousands of routing tables without hosts, streams or goroutines.
// It measures how many hops and RPCs a lookup needs, and how often it succeeds, while
// nodes leave and join.
//
// # Invariants
//
//   - A run is a function of its [Options]: the same seed gives the same report.
//   - An answer names only peers in the answering node's table at that moment.
//   - A node that left never answers, and no node is told that it left. A lookup
//     notices by a timeout, a refresh by a ping.
//
// # The model
//
// At the start each node has an ideal table: k random peers in each bucket. From then
// on nodes maintain their tables. After an answer, both peers add each other if the
// bucket has space. A peer that does not answer is removed. A node joins through one
// random peer and looks up itself. Every ten minutes a node pings all its peers, looks
// up itself, and sends one query for each bucket that has space. Round trips are
// lognormal with a median of 60 ms.
//
// # One run, walked through
//
// [Run] makes the nodes (newWorld) and plays events in order of time (world.run).
// During the first minute, startPublish puts up to 1,000 keys on the k closest nodes.
// The lookups spread over one hour of churn: in each, startFind lets a random node look
// for the first provider of a random key. With Options.Dead, that share of the nodes
// then leaves at once, and the run measures further lookups for 300 s.
package dhtsim

import (
	"context"
	"time"

	"allium/protocols/kad"
	"allium/protocols/status"
)

// Options are the parameters of a run.
type Options struct {
	Nodes   int     // 50 to 100,000
	Lookups int     // 1 to 10,000,000
	Churn   float64 // share of the nodes that leaves per hour, 0 to 10; the same number joins
	Dead    float64 // share of the nodes that leaves at once after the hour, 0 to 0.9
	Seed    uint64

	Progress func(done, total int) // called now and then with the number of lookups done; may be nil
}

func (o Options) validate() error {
	switch {
	case o.Nodes < 50 || o.Nodes > 100_000:
		return status.Errorf(status.BadRequest, "%d nodes are out of range; give 50 to 100000", o.Nodes)
	case o.Lookups < 1 || o.Lookups > 10_000_000:
		return status.Errorf(status.BadRequest, "%d lookups are out of range; give 1 to 10000000", o.Lookups)
	case !(o.Churn >= 0 && o.Churn <= 10):
		return status.Errorf(status.BadRequest, "a churn of %g %%/h is out of range; give 0 to 1000", o.Churn*100)
	case !(o.Dead >= 0 && o.Dead <= 0.9):
		return status.Errorf(status.BadRequest, "%g %% dead nodes are out of range; give 0 to 90", o.Dead*100)
	}
	return nil
}

// The course of a run, in simulated time.
const (
	warmUp      = time.Minute      // keys are published before lookups begin
	measured    = time.Hour        // lookups run
	window      = 30 * time.Second // one measurement of recovery
	windows     = 10               // measurements of recovery
	refreshTime = 10 * time.Minute // interval of refreshes, as in go-libp2p-kad-dht
	maxKeys     = 1000             // keys published
	recovered   = 0.99             // share of lookups that succeed in a recovered network
)

// Run simulates the network and returns what it measured. It returns bad_request if an
// option is out of bounds, and canceled if ctx ends.
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
