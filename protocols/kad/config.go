package kad

import (
	"fmt"
	"time"
)

// Config bounds a lookup. [Find] and [Publish] return the two configurations in use.
type Config struct {
	K     int // number of closest peers that complete the result, 1 or more
	Alpha int // most probes in flight that are not late, before hedging; 1 or more
	Beta  int // additional probes in flight once hedging begins, 0 or more

	// HedgeAfter is the delay after which a probe counts as late. With 0 no probe is
	// ever late: the lookup waits until each of the k closest peers answers or fails.
	HedgeAfter time.Duration

	RPCTimeout time.Duration // time after which a probe fails
	Deadline   time.Duration // most time a lookup takes, from its start
	Hops       int           // most hops; peers of the node's own table are hop 1
	MaxProbes  int           // most probes of one lookup, hedges included
}

// Find returns the configuration for queries whose caller waits for the result:
// slow peers are hedged (SPEC §2).
func Find() Config {
	return Config{
		K: 20, Alpha: 3, Beta: 2,
		HedgeAfter: 250 * time.Millisecond, RPCTimeout: 1500 * time.Millisecond, Deadline: 2 * time.Second,
		Hops: 5, MaxProbes: 128,
	}
}

// Publish returns the configuration for callers that need all of the k closest
// peers: no hedging, and a deadline of one minute.
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

// MinHedgeAfter is the shortest hedge delay that [RTT.HedgeAfter] returns. It keeps
// peers of a wide-area network from counting as late after a few fast responses.
const MinHedgeAfter = 75 * time.Millisecond

// RTT is a moving average of the round-trip times of one peer. The zero RTT has no
// samples. It is not safe for concurrent use.
type RTT struct{ mean time.Duration }

// Observe adds the round-trip time of one response, with a weight of 1/8.
func (r *RTT) Observe(d time.Duration) {
	if r.mean == 0 {
		r.mean = max(d, 1)
		return
	}
	r.mean = max(r.mean+(d-r.mean)/8, 1)
}

// Mean returns the average, or 0 without samples.
func (r RTT) Mean() time.Duration { return r.mean }

// HedgeAfter returns the adaptive hedge delay: twice the average, at least
// [MinHedgeAfter] and at most limit. It returns limit if there are no samples.
func (r RTT) HedgeAfter(limit time.Duration) time.Duration {
	if r.mean == 0 || r.mean > limit/2 {
		return limit
	}
	return min(max(2*r.mean, MinHedgeAfter), limit)
}
