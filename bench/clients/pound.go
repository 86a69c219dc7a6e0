package clients

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/bench/measure"
)

// pounded holds the measurements of a server that was asked as fast as it could answer.
type pounded struct {
	answers int
	Rate    float64       // answers a second
	P99     time.Duration // of an answer
	CPU     time.Duration // of the server, an answer
}

// Load describes the requests to a server.
type Load struct {
	Paths  []string      // in turn; the connections begin at different ones
	Conns  int           // each sends its next request when it has the answer to the last
	Length time.Duration // 0: each path once
	Want   int           // the code of every answer
}

// Pound asks p as fast as it can. It reads no more of an answer than its code and its length, because
// this program and the server share the cores.
func Pound(ctx context.Context, p *measure.Process, l Load) (got pounded, err error) {
	u, err := url.Parse(p.Gate)
	if err != nil {
		return got, err
	}
	requests := make([][]byte, len(l.Paths))
	for i, path := range l.Paths {
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
	for i := range l.Conns {
		mine := requests[i*len(requests)/l.Conns:]
		end := begun.Add(l.Length)
		if l.Length == 0 {
			mine, end = mine[:(i+1)*len(requests)/l.Conns-i*len(requests)/l.Conns], time.Time{}
		}
		wg.Go(func() {
			took, err := poundOver(ctx, u.Host, mine, end, l.Want)
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
		answers: len(all), Rate: float64(len(all)) / took.Seconds(), P99: measure.Quantile(all, 99),
		CPU: (after - before) / time.Duration(len(all)),
	}, nil
}

// poundOver sends the requests over one connection, in turn until the time end, or each once if end is
// zero. It returns what each took.
func poundOver(
	ctx context.Context, addr string, requests [][]byte, end time.Time, want int,
) (took []time.Duration, err error) {
	c, err := DialFrom(ctx, nil, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	buf := make([]byte, 64<<10)
	more := func(i int, at time.Time) bool { return at.Before(end) || end.IsZero() && i < len(requests) }
	for i, at := 0, time.Now(); more(i, at) && ctx.Err() == nil; i++ {
		if i%1000 == 0 {
			if err := c.SetDeadline(at.Add(10 * Within)); err != nil {
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

// AskOnce requests a path over a new connection.
func AskOnce(ctx context.Context, p *measure.Process, path string) (a measure.Answer, err error) {
	addr := strings.TrimPrefix(p.Gate, "http://")
	c, err := DialFrom(ctx, nil, addr)
	if err != nil {
		return a, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(Within)); err != nil {
		return a, err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, addr); err != nil {
		return a, err
	}
	return measure.ReadAnswer(c, make([]byte, 16<<10))
}
