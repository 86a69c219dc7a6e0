package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"allium/bench/measure"
)

// pounded holds the measurements of a server that was asked as fast as it could answer.
type pounded struct {
	answers int
	rate    float64       // answers a second
	p99     time.Duration // of an answer
	cpu     time.Duration // of the server, an answer
}

// load describes the requests to a server.
type load struct {
	paths  []string      // in turn; the connections begin at different ones
	conns  int           // each sends its next request when it has the answer to the last
	length time.Duration // 0: each path once
	want   int           // the code of every answer
}

// pound asks p as fast as it can. It reads no more of an answer than its code and its length, because
// this program and the server share the cores.
func pound(ctx context.Context, p *process, l load) (got pounded, err error) {
	u, err := url.Parse(p.Gate)
	if err != nil {
		return got, err
	}
	requests := make([][]byte, len(l.paths))
	for i, path := range l.paths {
		requests[i] = []byte("GET " + path + " HTTP/1.1\r\nHost: " + u.Host + "\r\n\r\n")
	}
	before, err := p.CPU()
	if err != nil {
		return got, err
	}
	begun := time.Now()
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	for i := range l.conns {
		mine := requests[i*len(requests)/l.conns:]
		end := begun.Add(l.length)
		if l.length == 0 {
			mine, end = mine[:(i+1)*len(requests)/l.conns-i*len(requests)/l.conns], time.Time{}
		}
		wg.Go(func() {
			took, err := poundOver(ctx, u.Host, mine, end, l.want)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	took := time.Since(begun)
	after, err := p.CPU()
	if err = errors.Join(failed, err); err != nil {
		return got, err
	}
	slices.Sort(all)
	return pounded{
		answers: len(all), rate: float64(len(all)) / took.Seconds(), p99: measure.Quantile(all, 99),
		cpu: (after - before) / time.Duration(len(all)),
	}, nil
}

// poundOver sends the requests over one connection, in turn until the time end, or each once if end is
// zero. It returns what each took.
func poundOver(
	ctx context.Context, addr string, requests [][]byte, end time.Time, want int,
) (took []time.Duration, err error) {
	c, err := dialFrom(ctx, nil, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	buf := make([]byte, 64<<10)
	more := func(i int, at time.Time) bool { return at.Before(end) || end.IsZero() && i < len(requests) }
	for i, at := 0, time.Now(); more(i, at) && ctx.Err() == nil; i++ {
		if i%1000 == 0 {
			if err := c.SetDeadline(at.Add(10 * askFor)); err != nil {
				return nil, err
			}
		}
		if _, err := c.Write(requests[i%len(requests)]); err != nil {
			return nil, err
		}
		got, err := measure.ReadAnswer(c, buf)
		if err != nil {
			return nil, err
		}
		if got.Code != want {
			return nil, fmt.Errorf("%s answered %d: %s", addr, got.Code, got.Body)
		}
		now := time.Now()
		took, at = append(took, now.Sub(at)), now
	}
	return took, ctx.Err()
}
