package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/protocols/session"
	"allium/protocols/status"
)

// The load of fairness: peers that ask at a steady rate, each request when it
// is due, and one that asks ten times as much.
const (
	fairPeers  = 32  // the greedy one included
	fairRate   = 100 // requests per second of an honest peer, half of what it may
	fairTimes  = 10  // so much more of the greedy one
	fairWork   = 64  // KiB that the handler hashes for each request
	fairRounds = 4   // alone and beside alternate, so that other work of the machine slows both
	fairWarm   = 500 * time.Millisecond
	fairFor    = 2 * time.Second // of a turn
)

// Fair measures what one greedy peer costs the honest ones.
func Fair(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	server, err := startSessions(ctx, bed.OnTCP, session.DefaultConfig().ControlRate, fairWork)
	if err != nil {
		return nil, err
	}
	var callers []*caller
	defer func() {
		for _, c := range callers {
			err = errors.Join(err, c.close())
		}
	}()
	for range fairPeers {
		h, _, err := bed.BuildHost(ctx, []string{})
		if err != nil {
			return nil, err
		}
		c, err := startCaller(ctx, h, server.Addr, session.DefaultConfig())
		if err != nil {
			return nil, err
		}
		callers = append(callers, c)
	}
	var (
		alone  = measure.Row{What: "fair: rate of an honest peer, alone", Unit: "calls/s"}
		beside = measure.Row{What: "fair: the same beside one at ten times it", Unit: "calls/s"}
		kept   = measure.Row{What: "fair: beside ÷ alone", Unit: "×", Target: "≥ 0.9"}
		p50a   = measure.Row{What: "fair: p50, alone", Unit: "ms"}
		p50b   = measure.Row{What: "fair: p50, beside", Unit: "ms"}
		p99a   = measure.Row{What: "fair: p99, alone", Unit: "ms"}
		p99b   = measure.Row{What: "fair: p99, beside", Unit: "ms"}
		slower = measure.Row{What: "fair: p99, beside ÷ alone", Unit: "×", Target: "≤ 2"}
		worst  = measure.Row{What: "fair: least of any honest peer, beside ÷ alone", Unit: "×"}
		greedy = measure.Row{What: "fair: what the greedy one is served", Unit: "calls/s"}
		other  = measure.Row{What: "fair: CPU of other programs meanwhile", Unit: "% of cores"}
	)
	add := func(r *measure.Row, v float64) { r.Values = append(r.Values, v) }
	honest := callers[1:]
	for range s.Rounds {
		from, err := measure.Take(server)
		if err != nil {
			return nil, err
		}
		var a, b asked
		for range fairRounds {
			a.add(askAll(ctx, honest, nil))
			b.add(askAll(ctx, honest, callers[0]))
		}
		if a.answered == 0 || b.answered == 0 {
			return nil, errors.Join(fmt.Errorf("the honest peers had %d and %d answers", a.answered, b.answered), a.err,
				b.err)
		}
		to, err := measure.Take(server)
		if err != nil {
			return nil, err
		}
		_, others := to.Since(from)
		add(&other, others)
		seconds := fairRounds * fairFor.Seconds()
		of := seconds * float64(len(honest))
		add(&alone, float64(a.answered)/of)
		add(&beside, float64(b.answered)/of)
		add(&p50a, bed.MS(measure.Quantile(a.took, 50)))
		add(&p50b, bed.MS(measure.Quantile(b.took, 50)))
		add(&p99a, bed.MS(measure.Quantile(a.took, 99)))
		add(&p99b, bed.MS(measure.Quantile(b.took, 99)))
		add(&worst, float64(b.least)/float64(a.least))
		add(&greedy, float64(b.greedy)/seconds)
	}
	kept.Values, slower.Values = measure.Pairs(beside.Values, alone.Values), measure.Pairs(p99b.Values, p99a.Values)
	_, err = server.Stop()
	return []measure.Row{alone, beside, kept, worst, p50a, p50b, p99a, p99b, slower, greedy, other}, err
}

// asked holds the results of the requests of the honest peers, and of the greedy one.
type asked struct {
	answered int             // of all honest peers
	least    int             // of one of them, in each turn
	took     []time.Duration // from when a request was due, sorted
	greedy   int
	err      error // one that was not busy
}

// add adds the results of another turn.
func (a *asked) add(b asked) {
	a.answered, a.least, a.greedy = a.answered+b.answered, a.least+b.least, a.greedy+b.greedy
	a.took = append(a.took, b.took...)
	slices.Sort(a.took)
	a.err = errors.Join(a.err, b.err)
}

// askAll lets the honest peers ask, and the greedy one beside them if there is
// one.
func askAll(ctx context.Context, honest []*caller, greedy *caller) (all asked) {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
	)
	all.least = -1
	for i, c := range honest {
		running.Go(func() {
			// Spread over the interval, as peers are.
			took, err := c.steady(ctx, fairRate, time.Duration(i)*time.Second/fairRate/time.Duration(len(honest)))
			mu.Lock()
			defer mu.Unlock()
			all.answered += len(took)
			if all.least < 0 || len(took) < all.least {
				all.least = len(took)
			}
			all.took = append(all.took, took...)
			all.err = errors.Join(all.err, err)
		})
	}
	if greedy != nil {
		running.Go(func() {
			took, _ := greedy.steady(ctx, fairTimes*fairRate, 0) // what it is refused is its own
			mu.Lock()
			defer mu.Unlock()
			all.greedy = len(took)
		})
	}
	running.Wait()
	return all
}

// steady asks at that rate, each request when it is due and whether the last
// was answered or not, and returns how long those took that were answered. The
// error is one that is not busy.
func (c *caller) steady(ctx context.Context, rate int, offset time.Duration) (took []time.Duration, err error) {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		begun   = time.Now().Add(offset)
	)
	for i := range int(float64(rate) * (fairWarm + fairFor).Seconds()) {
		after := time.Duration(i) * time.Second / time.Duration(rate)
		due := begun.Add(after)
		time.Sleep(time.Until(due))
		running.Go(func() {
			failed := c.call(ctx)
			late := time.Since(due)
			if after < fairWarm {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch status.Of(failed) {
			case status.OK:
				took = append(took, late)
			case status.Busy:
			default:
				err = failed
			}
		})
	}
	running.Wait()
	return took, err
}
