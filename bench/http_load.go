package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"allium/bench/measure"
)

// The loads of the gateway, at its default limits.
const (
	httpRate    = 500 // of SPEC §2
	httpTimes   = 10  // so much more in an overload
	httpClients = 32  // each on a connection that it keeps
	httpWarm    = 3 * time.Second
	httpBody    = 4 << 10
)

// startGateway starts a node with one small object and returns the object's page,
// and a capability to upload.
func (s *settings) startGateway(ctx context.Context, name string) (p *process, page, token string, err error) {
	file, home := filepath.Join(s.dir, name+".bin"), filepath.Join(s.dir, name)
	if err := randomFile(file, httpBody); err != nil {
		return nil, "", "", err
	}
	key, _, err := s.add(ctx, home, file)
	if err != nil {
		return nil, "", "", err
	}
	if key == "" {
		return nil, "", "", fmt.Errorf("add printed nothing")
	}
	if token, err = s.mint(ctx, home, "put"); err != nil {
		return nil, "", "", err
	}
	if p, err = s.startNode(ctx, home); err != nil {
		return nil, "", "", err
	}
	if p.Gate == "" {
		return nil, "", "", errors.New("the node has no gateway")
	}
	return p, p.Gate + "/o/" + key, token, nil
}

// mint returns a capability of the node at home for operations, such as "put,pin".
func (s *settings) mint(ctx context.Context, home, ops string) (string, error) {
	minted, err := run(ctx, s.allium, "--home", home, "token", "mint", "-q", "--op", ops, "--expires", "24h")
	return strings.TrimSpace(minted.out), err
}

// besideBare is a gateway and, to compare with, a bare net/http server.
type besideBare struct {
	node, bare *process
	page       string // of an object that the gateway has
	token      string // of a capability to store
}

// startBoth starts both, or neither.
func (s *settings) startBoth(ctx context.Context, name string) (b besideBare, err error) {
	if b.node, b.page, b.token, err = s.startGateway(ctx, name); err != nil {
		return b, err
	}
	if b.bare, err = s.startBare(ctx); err != nil {
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

// benchOverload asks ten times the rate for as long as -hold says, and the same
// of a bare handler, which refuses nothing, before and after: what it takes to
// be answered there is what this machine and this program make of it.
func benchOverload(ctx context.Context, s *settings) (_ []row, err error) {
	both, err := s.startBoth(ctx, "overload")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, both.stop()) }()
	p, bare, page := both.node, both.bare, both.page
	every := time.Second * httpClients / (httpRate * httpTimes)
	ask := func(page string, length time.Duration) (httpAnswers, error) {
		askers := make([]*asker, httpClients)
		for i := range askers {
			if askers[i], err = newAsker(page, nil, true); err != nil {
				return httpAnswers{}, err
			}
		}
		return askGateway(ctx, askers, every, length), nil
	}
	around := max(s.hold/4, time.Second)
	var thin httpAnswers
	other := func() error {
		got, err := ask(bare.Gate+"/", around)
		thin.add(got)
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
	got, err := ask(page, s.hold)
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
	if got.why != nil {
		fmt.Printf("overload: one of the requests failed: %v\n", got.why)
	}
	nodeCPU, others := to.Since(from)
	seconds := s.hold.Seconds()
	collected := func(what string) float64 {
		return now["go_gc_duration_seconds"+what] - counted["go_gc_duration_seconds"+what]
	}
	return []row{
		measure.Single("overload: asked", "req/s", "≥ 5000", float64(got.all())/seconds),
		measure.Single("overload: accepted", "req/s", "500", float64(len(got.took))/seconds),
		measure.Single("overload: p99 of the accepted", "ms", "≤ 40", got.p99()),
		measure.Single("overload: p99 of a bare handler, same rate", "ms", "", thin.p99()),
		measure.Single("overload: accepted ÷ bare", "×", "", got.p99()/thin.p99()),
		measure.Single("overload: p50 of the accepted", "ms", "", got.p50()),
		measure.Single("overload: p50 of a bare handler, same rate", "ms", "", thin.p50()),
		measure.Single("overload: the asker woke up late by (p99)", "ms", "", measure.Millis(got.late, 99)),
		measure.Single("overload: refused with 429", "%", "", 100*float64(got.refused)/float64(got.all())),
		measure.Single("overload: of these without Retry-After", "", "0", float64(got.bare)),
		measure.Single("overload: failed otherwise", "", "0", float64(got.failed)),
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

// startBare starts the bare handler of one page of the size of a gateway's.
func (s *settings) startBare(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return measure.Start(ctx, nil, self, "reference-page", strconv.Itoa(httpBody))
}

// samePage is a handler that answers everything with size bytes.
func samePage(size int) http.Handler {
	body, length := make([]byte, size), strconv.Itoa(size)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", length)
		_, _ = w.Write(body) // the client went away
	})
}
