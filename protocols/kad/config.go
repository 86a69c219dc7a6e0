package kad

import (
	"fmt"
	"time"
)

// Config is how a lookup goes about it. [Find] and [Publish] are the two modes.
type Config struct {
	K     int // peers that make an answer complete, 1 or more
	Alpha int // probes on time at one time, 1 or more
	Beta  int // probes in place of late ones, 0 or more

	// HedgeAfter is when a probe is late; 0 means never: the patient mode, in
	// which each of the k closest answers or fails.
	HedgeAfter time.Duration

	RPCTimeout time.Duration // of one probe, which then has failed
	Deadline   time.Duration // of the lookup, from its start
	Hops       int           // the own table is hop 1; peers farther than that are not asked
	MaxProbes  int           // in all, hedges included
}

// Find is the hedged mode, for those who wait for the answer (SPEC §2).
func Find() Config {
	return Config{K: 20, Alpha: 3, Beta: 2, HedgeAfter: 250 * time.Millisecond, RPCTimeout: 1500 * time.Millisecond, Deadline: 2 * time.Second, Hops: 5, MaxProbes: 128}
}

// Publish is the patient mode, for those who need all of the k closest.
func Publish() Config {
	c := Find()
	c.Beta, c.HedgeAfter, c.Deadline = 0, 0, time.Minute
	return c
}

// Validate reports the first field that is out of bounds.
func (c Config) Validate() error {
	for _, f := range []struct {
		name string
		ok   bool
		want string
	}{
		{"K", c.K >= 1, "1 or more"},
		{"Alpha", c.Alpha >= 1, "1 or more"},
		{"Beta", c.Beta >= 0, "0 or more"},
		{"HedgeAfter", c.HedgeAfter >= 0, "0 or more"},
		{"RPCTimeout", c.RPCTimeout > 0, "more than 0"},
		{"Deadline", c.Deadline > 0, "more than 0"},
		{"Hops", c.Hops >= 1, "1 or more"},
		{"MaxProbes", c.MaxProbes >= 1, "1 or more"},
	} {
		if !f.ok {
			return fmt.Errorf("kad: %s must be %s", f.name, f.want)
		}
	}
	return nil
}

// MinHedgeAfter is the least adaptive hedge delay: below it a probe is not
// late, the network is merely not a local one.
const MinHedgeAfter = 75 * time.Millisecond

// RTT is a moving average of one peer's round-trip times. The zero RTT knows
// nothing yet. It is for whoever keeps the routing table.
type RTT struct{ mean time.Duration }

// Observe takes in the time of one answer; the last ones weigh most (1/8).
func (r *RTT) Observe(d time.Duration) {
	if r.mean == 0 {
		r.mean = max(d, 1)
		return
	}
	r.mean = max(r.mean+(d-r.mean)/8, 1)
}

// Mean is the average, 0 before the first answer.
func (r RTT) Mean() time.Duration { return r.mean }

// HedgeAfter is the adaptive hedge delay: twice the average, but at least
// [MinHedgeAfter] and at most limit, which is also the delay of a peer that
// nothing is known of.
func (r RTT) HedgeAfter(limit time.Duration) time.Duration {
	if r.mean == 0 || r.mean > limit/2 {
		return limit
	}
	return min(max(2*r.mean, MinHedgeAfter), limit)
}
