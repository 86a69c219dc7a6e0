package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The loads of the gateway, at its default limits.
const (
	httpRate    = 500 // of SPEC §2
	httpTimes   = 10  // so much more in an overload
	httpClients = 32  // each on a connection that it keeps
	httpWarm    = 3 * time.Second
	httpBody    = 4 << 10

	slowConns   = 5000
	slowHosts   = 20 // addresses they come from: 250 each, within the bound of one
	slowEvery   = 500 * time.Millisecond
	slowFor     = 10 * time.Second
	slowNormals = 8  // half of them on new connections
	slowRate    = 20 // requests per second of each
)

// httpAnswers is what clients of a gateway got.
type httpAnswers struct {
	took    []time.Duration // of the requests answered with 200; sorted
	refused int             // 429
	bare    int             // of these, without Retry-After
	failed  int
}

func (a httpAnswers) p99() float64 {
	if len(a.took) == 0 {
		return 0
	}
	return ms(a.took[len(a.took)*99/100])
}

// askGateway lets clients ask for one page, each every so often; keep says which
// keep their connection.
func askGateway(ctx context.Context, page string, clients int, every, length time.Duration, keep func(int) bool) httpAnswers {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var mu sync.Mutex
	var all httpAnswers
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			tr := &http.Transport{DisableKeepAlives: !keep(i), DisableCompression: true}
			defer tr.CloseIdleConnections()
			var mine httpAnswers
			tick := time.NewTicker(every)
			defer tick.Stop()
			for ctx.Err() == nil {
				begun := time.Now()
				code, after, err := getOnce(ctx, tr, page)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					mine.failed++
				case code == http.StatusOK:
					mine.took = append(mine.took, time.Since(begun))
				case code == http.StatusTooManyRequests:
					mine.refused++
					if after == "" {
						mine.bare++
					}
				default:
					mine.failed++
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.took = append(all.took, mine.took...)
			all.refused += mine.refused
			all.bare += mine.bare
			all.failed += mine.failed
		})
	}
	wg.Wait()
	slices.Sort(all.took)
	return all
}

func getOnce(ctx context.Context, tr *http.Transport, page string) (code int, after string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("Retry-After"), err
}

// startGateway starts a node with one small object and returns the object's page.
func (s *settings) startGateway(ctx context.Context, name string) (p *process, page string, err error) {
	file, home := filepath.Join(s.dir, name+".bin"), filepath.Join(s.dir, name)
	if err := randomFile(file, httpBody); err != nil {
		return nil, "", err
	}
	if _, err := run(ctx, s.allium, "--home", home, "init", "--profile", "testnet"); err != nil {
		return nil, "", err
	}
	added, err := run(ctx, s.allium, "--home", home, "add", "-q", file)
	if err != nil {
		return nil, "", err
	}
	fields := strings.Fields(added.out)
	if len(fields) == 0 {
		return nil, "", fmt.Errorf("add printed nothing")
	}
	if p, err = s.startNode(ctx, home); err != nil {
		return nil, "", err
	}
	if p.gate == "" {
		return nil, "", errors.New("the node has no gateway")
	}
	return p, p.gate + "/o/" + fields[0], nil
}

// benchOverload asks ten times the rate for as long as -hold says.
func benchOverload(ctx context.Context, s *settings) (_ []row, err error) {
	p, page, err := s.startGateway(ctx, "overload")
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopErr := p.stop()
		err = errors.Join(err, stopErr)
	}()
	always := func(int) bool { return true }
	every := time.Second * httpClients / (httpRate * httpTimes)
	askGateway(ctx, page, httpClients, every, httpWarm, always)
	before, err := p.memory()
	if err != nil {
		return nil, err
	}
	got := askGateway(ctx, page, httpClients, every, s.hold, always)
	after, err := p.memory()
	if err != nil {
		return nil, err
	}
	all := len(got.took) + got.refused + got.failed
	one := func(what, unit, target string, v float64) row {
		return row{what: what, unit: unit, target: target, values: []float64{v}}
	}
	return []row{
		one("overload: asked", "req/s", "≥ 5000", float64(all)/s.hold.Seconds()),
		one("overload: accepted", "req/s", "500", float64(len(got.took))/s.hold.Seconds()),
		one("overload: p99 of the accepted", "ms", "≤ 40", got.p99()),
		one("overload: refused with 429", "%", "", 100*float64(got.refused)/float64(all)),
		one("overload: of these without Retry-After", "", "0", float64(got.bare)),
		one("overload: failed otherwise", "", "0", float64(got.failed)),
		one("overload: RSS at the end ÷ after the warm-up", "×", "≤ 1.1", float64(after)/float64(before)),
	}, nil
}

// benchSlow compares normal clients of an idle gateway with the same beside
// thousands that send headers and bodies slowly, and come back when they are cut
// off.
func benchSlow(ctx context.Context, s *settings) (_ []row, err error) {
	p, page, err := s.startGateway(ctx, "slow")
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopErr := p.stop()
		err = errors.Join(err, stopErr)
	}()
	half := func(i int) bool { return i%2 == 0 }
	normal := func() httpAnswers {
		return askGateway(ctx, page, slowNormals, time.Second/slowRate, slowFor, half)
	}
	normal() // warm
	idle := normal()

	attack, stop := context.WithCancel(ctx)
	var slow sync.WaitGroup
	var open, most atomic.Int64
	for i := range slowConns {
		slow.Go(func() {
			for attack.Err() == nil {
				holdSlowly(attack, strings.TrimPrefix(p.gate, "http://"), i, &open, &most)
			}
		})
	}
	select {
	case <-time.After(httpWarm):
	case <-ctx.Done():
	}
	beside := normal()
	rss, memErr := p.memory()
	stop()
	slow.Wait()
	if memErr != nil {
		return nil, memErr
	}
	one := func(what, unit, target string, v float64) row {
		return row{what: what, unit: unit, target: target, values: []float64{v}}
	}
	return []row{
		one("slow: connections held at once", "", "", float64(most.Load())),
		one("slow: p99 of normal clients, idle", "ms", "", idle.p99()),
		one("slow: the same beside them", "ms", "", beside.p99()),
		one("slow: beside ÷ idle", "×", "≤ 2", beside.p99()/idle.p99()),
		one("slow: normal requests answered", "", "", float64(len(beside.took))),
		one("slow: normal requests refused or failed", "", "0", float64(beside.refused+beside.failed)),
		one("slow: RSS", "MB", "", mb(rss)),
	}, nil
}

// holdSlowly opens one connection and sends a byte now and then: every other one
// of a header, the rest of a body, until it is cut off.
func holdSlowly(ctx context.Context, addr string, i int, open, most *atomic.Int64) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%slowHosts))}, Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	tick := time.NewTicker(slowEvery)
	defer tick.Stop()
	if err == nil {
		defer c.Close()
		for n := open.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		defer open.Add(-1)
		begin := "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
		if i%2 == 0 {
			begin = "POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
		}
		_, err = io.WriteString(c, begin)
	}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		if _, err = c.Write([]byte("a")); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}
