// Package lookups measures a node that many peers ask for peers and providers.
package lookups

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/protocols/status"
)

// The load of discovery: an open loop, so a request that has to wait for the
// node, or for the machine, has waited from the moment it was due.
const (
	loadPeers   = 32              // half of them over TCP, half over QUIC
	loadRate    = 2500            // requests per second of all peers; the overload is twice that
	loadWarm    = 3 * time.Second // not measured; it also empties the node's burst
	loadFor     = 10 * time.Second
	loadTimeout = 1500 * time.Millisecond // of one request (SPEC §2)
	loadPending = 8192                    // requests in flight, far above what the node admits
)

// loadResult is the result of one run of the load.
type loadResult struct {
	cpu      float64         // of the node, percent of the machine's cores
	others   float64         // of programs that have nothing to do with it, likewise
	accepted []time.Duration // sorted
	late     []time.Duration // how late requests were sent, sorted
	outcomes map[status.Outcome]int
}

// share is the part of all requests that had one of the outcomes, in percent.
func (r loadResult) share(of ...status.Outcome) float64 {
	all, some := 0, 0
	for o, n := range r.outcomes {
		all += n
		if slices.Contains(of, o) {
			some += n
		}
	}
	return 100 * float64(some) / float64(all)
}

// Load measures a node that many peers ask at once: half of the requests
// look for the closest peers, four in ten for providers, one in ten puts a
// record.
func Load(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	at := func(rate int, what string) string { return fmt.Sprintf("dht: %d RPC/s: %s", rate, what) }
	var (
		cpu   = measure.Row{What: at(loadRate, "the node's CPU"), Unit: "% of cores", Target: "< 70"}
		p50   = measure.Row{What: at(loadRate, "p50 of accepted"), Unit: "ms"}
		p99   = measure.Row{What: at(loadRate, "p99 of accepted"), Unit: "ms", Target: "≤ 200"}
		lost  = measure.Row{What: at(loadRate, "refused or lost"), Unit: "%", Target: "0"}
		cpu2  = measure.Row{What: at(2*loadRate, "the node's CPU"), Unit: "% of cores"}
		p502  = measure.Row{What: at(2*loadRate, "p50 of accepted"), Unit: "ms"}
		p992  = measure.Row{What: at(2*loadRate, "p99 of accepted"), Unit: "ms", Target: "≤ 200"}
		rate2 = measure.Row{What: at(2*loadRate, "refused: rate_limit"), Unit: "%"}
		busy2 = measure.Row{What: at(2*loadRate, "refused: busy, quota"), Unit: "%"}
		lost2 = measure.Row{What: at(2*loadRate, "lost without a word"), Unit: "%", Target: "0"}
		kept2 = measure.Row{What: at(2*loadRate, "kept back by the asker"), Unit: "%"}
		late2 = measure.Row{What: at(2*loadRate, "sent late by (p99)"), Unit: "ms"}
		other = measure.Row{What: "dht: CPU of other programs meanwhile", Unit: "% of cores"}
	)
	add := func(r *measure.Row, v float64) { r.Values = append(r.Values, v) }
	for i := range s.Rounds {
		r, err := load(ctx, s, fmt.Sprintf("load%d", i), loadRate)
		if err != nil {
			return nil, err
		}
		add(&cpu, r.cpu)
		add(&p50, bed.MS(measure.Quantile(r.accepted, 50)))
		add(&p99, bed.MS(measure.Quantile(r.accepted, 99)))
		add(&lost, 100-r.share(status.OK))
		add(&other, r.others)
		if r, err = load(ctx, s, fmt.Sprintf("overload%d", i), 2*loadRate); err != nil {
			return nil, err
		}
		add(&cpu2, r.cpu)
		add(&p502, bed.MS(measure.Quantile(r.accepted, 50)))
		add(&p992, bed.MS(measure.Quantile(r.accepted, 99)))
		add(&rate2, r.share(status.RateLimit))
		add(&busy2, r.share(status.Busy, status.Quota))
		add(&lost2, 100-r.share(status.OK, status.RateLimit, status.Busy, status.Quota, unsent))
		add(&kept2, r.share(unsent))
		add(&other, r.others)
		add(&late2, bed.MS(measure.Quantile(r.late, 99)))
	}
	return []measure.Row{cpu, p50, p99, lost, cpu2, p502, p992, rate2, busy2, lost2, kept2, late2, other}, nil
}

// load starts a node and its peers and runs the load at so many requests per
// second.
func load(ctx context.Context, s *bed.Settings, name string, rate int) (_ loadResult, err error) {
	node, err := measure.Start(ctx, nil, s.Allium, "--home", filepath.Join(s.Dir, name), "--log-level", "error", "run",
		"--profile", "testnet")
	if err != nil {
		return loadResult{}, err
	}
	peers, err := startPeers(ctx, node.Addrs)
	if err != nil {
		return loadResult{}, err
	}
	defer func() { err = errors.Join(err, peers.close()) }()
	plan, err := peers.plan(ctx, rate*int((loadWarm+loadFor)/time.Second))
	if err != nil {
		return loadResult{}, err
	}
	r, err := drive(ctx, node, plan, rate)
	if err != nil {
		return r, err
	}
	_, err = node.Stop()
	return r, err
}

// drive sends the plan's requests, each when it is due, and measures those that
// are due after the warm-up.
func drive(ctx context.Context, node *measure.Process, plan []rpc, rate int) (loadResult, error) {
	r := loadResult{outcomes: map[status.Outcome]int{}}
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		pending = make(chan struct{}, loadPending) // bound: loadPending
		begun   = time.Now()
		from    measure.Taken
	)
	for i, q := range plan {
		after := time.Duration(i) * time.Second / time.Duration(rate)
		due := begun.Add(after)
		time.Sleep(time.Until(due))
		measured := after >= loadWarm
		if measured && from.At.IsZero() {
			var err error
			if from, err = measure.Take(node); err != nil {
				running.Wait()
				return r, err
			}
		}
		select {
		case pending <- struct{}{}:
		case <-ctx.Done():
			running.Wait()
			return r, ctx.Err()
		}
		running.Go(func() {
			defer func() { <-pending }()
			late := time.Since(due)
			_, outcome := q.do(ctx)
			took := time.Since(due)
			if !measured {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			r.late = append(r.late, late)
			r.outcomes[outcome]++
			if outcome == status.OK {
				r.accepted = append(r.accepted, took)
			}
		})
	}
	to, err := measure.Take(node)
	running.Wait()
	r.cpu, r.others = to.Since(from)
	if err == nil && len(r.accepted) == 0 {
		err = fmt.Errorf("no request was accepted: %v", r.outcomes)
	}
	slices.Sort(r.accepted)
	slices.Sort(r.late)
	return r, err
}
