package redundancy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
)

// A repair of what a lost node had, beside requests of the gateway.
const (
	repairBudget = 8 << 20 // bytes a second
	repairFiles  = 23      // each on the origin and on one of two others
	repairFile   = 16 << 20
	repairSpan   = 15 * time.Second // of the requests, and in which the bytes are counted
	repairWindow = 10 * time.Second // in which the budget is kept
	repairLook   = time.Second      // between two counts, which cost the node something
	repairSoon   = time.Minute      // for the repair to begin
	repairAskers = 20               // that ask every so often: 200 requests a second
	repairEvery  = 100 * time.Millisecond
)

// Repair loses a node of a cluster. It measures what a node sends while it makes the copies again that were lost,
// what the node that gets them receives, and what the gateway of the first one answers meanwhile.
func Repair(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	var budget, alone, beside []float64
	for range min(s.Rounds, rateRounds) {
		r, err := repair(ctx, s)
		if err != nil {
			return nil, err
		}
		budget, alone, beside = append(budget, r.most/repairBudget), append(alone, r.alone), append(beside, r.beside)
	}
	return []measure.Row{
		{What: "repair: most in 10 s ÷ store.repair_rate", Unit: "×", Target: "≤ 1.05", Values: budget},
		{What: "gateway at 200 requests/s: p99", Unit: "ms", Values: alone},
		{What: "the same beside repair: p99", Unit: "ms", Values: beside},
		{What: "p99 beside repair ÷ without", Unit: "×", Target: "≤ 1.5", Values: measure.Pairs(beside, alone)},
	}, nil
}

// repaired holds the measurements of one repair.
type repaired struct {
	most          float64 // bytes a second, in the 10 s and on the node with the most
	alone, beside float64 // p99 of the gateway without repair and beside it, ms
}

// repair loses one of three nodes.
func repair(ctx context.Context, s *bed.Settings) (r repaired, err error) {
	c, err := startCluster(ctx, s, "repair", bed.AsTestnet, repairRate(repairBudget), 3)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	origin := c.members[0]
	key, err := c.add(ctx, origin, 4<<10, "--rf", "2") // for the gateway
	if err != nil {
		return r, err
	}
	for range repairFiles {
		if _, err := c.add(ctx, origin, repairFile, "--rf", "2"); err != nil {
			return r, err
		}
	}
	page := origin.Gate + "/b3/" + key
	if r.alone, err = steadyP99(ctx, page); err != nil {
		return r, err
	}
	if err := c.kill(c.members[2:]); err != nil {
		return r, err
	}
	if err := origin.awaitRepair(ctx); err != nil {
		return r, err
	}
	counting, cancel := context.WithCancel(ctx)
	var counted sync.WaitGroup
	most, failed := make([]float64, len(c.members)), make([]error, len(c.members))
	for i, m := range c.members {
		counted.Go(func() { most[i], failed[i] = m.mostRepaired(counting) })
	}
	r.beside, err = steadyP99(ctx, page)
	cancel()
	counted.Wait()
	r.most = slices.Max(most)
	return r, errors.Join(err, errors.Join(failed...))
}

// steadyP99 asks for a page 200 times a second.
func steadyP99(ctx context.Context, page string) (ms float64, err error) {
	got, err := clients.Ask(ctx, page, repairAskers, true, repairEvery, repairSpan)
	if err != nil {
		return 0, err
	}
	if bad := got.Refused + got.Failed; bad > 0 {
		return 0, fmt.Errorf("%d of %d requests to the gateway were not answered: %w", bad, got.All(), got.Why)
	}
	return got.P99(), nil
}

// awaitRepair waits until the node sends copies again.
func (m *member) awaitRepair(ctx context.Context) error {
	before, err := m.repairedBytes(ctx)
	for begun := time.Now(); err == nil; time.Sleep(repairLook) {
		var now float64
		if now, err = m.repairedBytes(ctx); err == nil && now > before {
			return nil
		}
		if time.Since(begun) > repairSoon {
			return fmt.Errorf("no repair began within %s after a node was lost", repairSoon)
		}
	}
	return err
}

// mostRepaired returns the most that the node sends and receives in a second, over repairWindow, until ctx ends.
func (m *member) mostRepaired(ctx context.Context) (most float64, err error) {
	type look struct {
		at    time.Time
		bytes float64
	}
	var looks []look
	for ctx.Err() == nil {
		bytes, err := m.repairedBytes(context.WithoutCancel(ctx))
		if err != nil {
			return 0, err
		}
		now := look{time.Now(), bytes}
		looks = append(looks, now)
		for now.at.Sub(looks[0].at) > repairWindow {
			looks = looks[1:]
		}
		if span := now.at.Sub(looks[0].at); span > repairWindow-2*repairLook {
			most = max(most, (bytes-looks[0].bytes)/span.Seconds())
		}
		time.Sleep(repairLook)
	}
	if most == 0 {
		return 0, errors.New("nothing was repaired within the time of a repair")
	}
	return most, nil
}
