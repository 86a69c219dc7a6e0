package web

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
)

// The load of the gateway, at its default limits.
const (
	httpRate    = 500 // of SPEC §2
	httpTimes   = 10  // so much more in an overload
	httpClients = 32  // each on a connection that it keeps
	httpWarm    = 3 * time.Second
)

// startGateway starts a node with one small object and returns the object's page,
// and a capability to upload.
func startGateway(
	ctx context.Context, s *bed.Settings, name string,
) (p *measure.Process, page, token string, err error) {
	file, home := filepath.Join(s.Dir, name+".bin"), filepath.Join(s.Dir, name)
	if err := bed.RandomFile(file, bed.PageSize); err != nil {
		return nil, "", "", err
	}
	key, _, err := s.Add(ctx, home, file)
	if err != nil {
		return nil, "", "", err
	}
	if key == "" {
		return nil, "", "", fmt.Errorf("add printed nothing")
	}
	if token, err = s.Mint(ctx, home, "put"); err != nil {
		return nil, "", "", err
	}
	if p, err = s.StartNode(ctx, home); err != nil {
		return nil, "", "", err
	}
	if p.Gate == "" {
		return nil, "", "", errors.New("the node has no gateway")
	}
	return p, p.Gate + "/o/" + key, token, nil
}

// besideBare is a gateway and, to compare with, a bare net/http server.
type besideBare struct {
	node, bare *measure.Process
	page       string // of an object that the gateway has
	token      string // of a capability to store
}

// startBoth starts both, or neither.
func startBoth(ctx context.Context, s *bed.Settings, name string) (b besideBare, err error) {
	if b.node, b.page, b.token, err = startGateway(ctx, s, name); err != nil {
		return b, err
	}
	if b.bare, err = s.StartBare(ctx); err != nil {
		_, stopErr := b.node.Stop()
		return b, errors.Join(err, stopErr)
	}
	return b, nil
}

func (b besideBare) stop() error {
	_, bareErr := b.bare.Stop()
	_, err := b.node.Stop()
	return errors.Join(err, bareErr)
}

// Overload asks ten times the rate for as long as -hold says, and the same
// of a bare handler, which refuses nothing, before and after: what it takes to
// be answered there is what this machine and this program make of it.
func Overload(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	both, err := startBoth(ctx, s, "overload")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, both.stop()) }()
	p, bare, page := both.node, both.bare, both.page
	every := time.Second * httpClients / (httpRate * httpTimes)
	ask := func(page string, length time.Duration) (clients.Answers, error) {
		return clients.Ask(ctx, page, httpClients, true, every, length)
	}
	around := max(s.Hold/4, time.Second)
	var thin clients.Answers
	other := func() error {
		got, err := ask(bare.Gate+"/", around)
		thin.Add(got)
		return err
	}
	if _, err := ask(page, httpWarm); err != nil {
		return nil, err
	}
	if err := other(); err != nil {
		return nil, err
	}
	before, err := p.Memory()
	if err != nil {
		return nil, err
	}
	from, err := measure.Take(p)
	if err != nil {
		return nil, err
	}
	counted, err := p.Counters(ctx)
	if err != nil {
		return nil, err
	}
	got, err := ask(page, s.Hold)
	if err != nil {
		return nil, err
	}
	to, err := measure.Take(p)
	if err != nil {
		return nil, err
	}
	load, err := measure.LoadAverage()
	if err != nil {
		return nil, err
	}
	after, err := p.Memory()
	if err != nil {
		return nil, err
	}
	now, err := p.Counters(ctx)
	if err != nil {
		return nil, err
	}
	if err := other(); err != nil {
		return nil, err
	}
	if got.Why != nil {
		fmt.Printf("overload: one of the requests failed: %v\n", got.Why)
	}
	nodeCPU, others := to.Since(from)
	seconds := s.Hold.Seconds()
	collected := func(what string) float64 {
		return now["go_gc_duration_seconds"+what] - counted["go_gc_duration_seconds"+what]
	}
	return []measure.Row{
		measure.Single("overload: asked", "req/s", "≥ 5000", float64(got.All())/seconds),
		measure.Single("overload: accepted", "req/s", "500", float64(len(got.Took))/seconds),
		measure.Single("overload: p99 of the accepted", "ms", "≤ 40", got.P99()),
		measure.Single("overload: p99 of a bare handler, same rate", "ms", "", thin.P99()),
		measure.Single("overload: accepted ÷ bare", "×", "", got.P99()/thin.P99()),
		measure.Single("overload: p50 of the accepted", "ms", "", got.P50()),
		measure.Single("overload: p50 of a bare handler, same rate", "ms", "", thin.P50()),
		measure.Single("overload: the asker woke up late by (p99)", "ms", "", measure.Millis(got.Late, 99)),
		measure.Single("overload: refused with 429", "%", "", 100*float64(got.Refused)/float64(got.All())),
		measure.Single("overload: of these without Retry-After", "", "0", float64(got.Bare)),
		measure.Single("overload: failed otherwise", "", "0", float64(got.Failed)),
		measure.Single("overload: RSS at the end ÷ after the warm-up", "×", "≤ 1.1", float64(after)/float64(before)),
		measure.Single("overload: CPU of the node", "% of cores", "", nodeCPU),
		measure.Single("overload: CPU of the askers", "% of cores", "", percent(to.Self-from.Self, to.At.Sub(from.At))),
		measure.Single("overload: CPU of other programs", "% of cores", "", others),
		measure.Single("overload: collections of the node", "/s", "", collected("_count")/seconds),
		measure.Single("overload: pauses of these", "ms/s", "", 1000*collected("_sum")/seconds),
		measure.Single("overload: load average", "", "", load),
	}, nil
}

// percent is a share of all cores.
func percent(used, of time.Duration) float64 {
	return 100 * used.Seconds() / of.Seconds() / float64(runtime.NumCPU())
}
