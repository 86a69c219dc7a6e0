package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
)

// The overload: open-loop load at a multiple of what a gateway can answer.
const (
	overloadTimes = 3
	capacityConns = 32   // these measure the capacity, each asking again when it is answered
	overloadConns = 3072 // below gateway.conns
)

// benchOverload asks a gateway three times as much as it can answer, as it is set by default and without gateway.rate.
// The capacity is what 32 connections of as many clients are answered that ask again at once. Then many more clients
// ask at a fixed rate, whatever they are answered.
func benchOverload(ctx context.Context, s *bed.Settings) (rows []measure.Row, err error) {
	for _, c := range []struct{ name, config string }{
		{"overload", ""}, {"overload without a rate", "gateway.rate = 0.0\n"},
	} {
		got, err := overload(ctx, s, c.name, c.config)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func overload(ctx context.Context, s *bed.Settings, name, config string) (_ []measure.Row, err error) {
	home := strings.ReplaceAll(name, " ", "-")
	if err := os.MkdirAll(filepath.Join(s.Dir, home), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, home, configFile), []byte(config), 0o600); err != nil {
		return nil, err
	}
	p, page, err := startGateway(ctx, s, home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.End()) }()
	f := newFlood(page)
	f.run(ctx, capacityConns, 0, askWarm)
	around := max(s.Hold/4, time.Second)
	before, err := measure.Take(p)
	if err != nil {
		return nil, err
	}
	calm := f.run(ctx, capacityConns, 0, around)
	capacity := float64(len(calm.Took)) / around.Seconds()

	w := watchReady(ctx, p.Admin+"/readyz")
	from, err := measure.Take(p)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	got := f.run(ctx, overloadConns, overloadTimes*capacity, s.Hold)
	ended := time.Now()
	to, err := measure.Take(p)
	if err != nil {
		return nil, err
	}
	noWrites, noReads, ready, gates := w.end(begun, ended)
	if got.Why != nil {
		fmt.Printf("%s: one of the requests failed: %v\n", name, got.Why)
	}
	if gates != "" {
		fmt.Printf("%s: gates that shut: %s\n", name, gates)
	}
	node, others := to.Since(from)
	_, othersBefore := from.Since(before)
	seconds := to.At.Sub(from.At).Seconds()
	goodput := float64(len(got.Took)) / s.Hold.Seconds()
	return []measure.Row{
		measure.Single(name+": capacity", "/s", "", capacity),
		measure.Single(name+": p99 at capacity", "ms", "", calm.P99()),
		measure.Single(name+": asked", "/s", "", float64(got.All())/s.Hold.Seconds()),
		measure.Single(name+": due while no connection was free", "/s", "0", float64(f.unsent)/s.Hold.Seconds()),
		measure.Single(name+": accepted", "/s", "", goodput),
		measure.Single(name+": accepted ÷ capacity", "×", "≥ 0.9", goodput/capacity),
		measure.Single(name+": p50 of the accepted", "ms", "", measure.Millis(got.Took, 50)),
		measure.Single(name+": p99 of the accepted", "ms", "", got.P99()),
		measure.Single(name+": p99 ÷ at capacity", "×", "≤ 2", got.P99()/calm.P99()),
		measure.Single(name+": p99 of the later ÷ at capacity", "×", "≤ 2", measure.Millis(got.Later, 99)/calm.P99()),
		measure.Single(name+": refused", "/s", "", float64(got.Refused)/s.Hold.Seconds()),
		measure.Single(name+": of these without Retry-After", "", "0", float64(got.Bare)),
		measure.Single(name+": failed otherwise", "", "0", float64(got.Failed)),
		measure.Single(name+": not ready for writes after (-1: never)", "s", "≤ 2", noWrites.Seconds()),
		measure.Single(name+": not ready for reads after (-1: never)", "s", "≤ 2", noReads.Seconds()),
		measure.Single(name+": ready after the end", "s", "≤ 5", ready.Seconds()),
		measure.Single(name+": CPU of the node", "% of cores", "", node),
		measure.Single(name+": CPU of the clients", "% of cores", "",
			100*(to.Self-from.Self).Seconds()/seconds/float64(runtime.NumCPU())),
		measure.Single(name+": CPU of other programs", "% of cores", "", others),
		measure.Single(name+": the same at capacity", "% of cores", "", othersBefore),
	}, nil
}
