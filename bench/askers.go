package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"allium/bench/measure"
)

// askFor limits the wait of a normal client for an answer.
const askFor = 10 * time.Second

// httpAnswers holds the answers that clients of a gateway got.
type httpAnswers struct {
	took    []time.Duration // of the requests answered with 200; sorted
	late    []time.Duration // how late clients that slept woke up, so what the load program itself adds; sorted
	refused int             // 429
	bare    int             // of these, without Retry-After
	failed  int
	why     error // of one that failed; nil: all were answered
}

func (a httpAnswers) all() int { return len(a.took) + a.refused + a.failed }

func (a httpAnswers) p99() float64 { return measure.Millis(a.took, 99) }
func (a httpAnswers) p50() float64 { return measure.Millis(a.took, 50) }

func (a *httpAnswers) add(b httpAnswers) {
	a.took = slices.Sorted(slices.Values(append(a.took, b.took...)))
	a.late = slices.Sorted(slices.Values(append(a.late, b.late...)))
	a.refused += b.refused
	a.bare += b.bare
	a.failed += b.failed
	a.why = cmp.Or(a.why, b.why)
}

// asker is a client that asks for one page, in the goroutine that measures: one
// more for each connection would be scheduled in between.
type asker struct {
	addr, request string
	from          net.IP // nil: any
	keep          bool   // the connection

	c net.Conn
	r *bufio.Reader
}

// newAsker asks for page, from an address of loopback if from is one.
func newAsker(page string, from net.IP, keep bool) (*asker, error) {
	u, err := url.Parse(page)
	if err != nil {
		return nil, err
	}
	header := "Host: " + u.Host + "\r\n"
	if !keep {
		header += "Connection: close\r\n"
	}
	return &asker{addr: u.Host, request: "GET " + u.RequestURI() + " HTTP/1.1\r\n" + header + "\r\n", from: from,
		keep: keep}, nil
}

// ask asks once, over a new connection where there is none.
func (a *asker) ask(ctx context.Context) (code int, retryAfter string, err error) {
	if a.c == nil {
		if a.c, err = dialFrom(ctx, a.from, a.addr); err != nil {
			a.c = nil
			return 0, "", err
		}
		a.r = bufio.NewReader(a.c)
	}
	closing := !a.keep
	defer func() {
		if err != nil || closing {
			a.close()
		}
	}()
	if err := a.c.SetDeadline(time.Now().Add(askFor)); err != nil {
		return 0, "", err
	}
	if _, err := io.WriteString(a.c, a.request); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(a.r, nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	closing = closing || resp.Close
	return resp.StatusCode, resp.Header.Get("Retry-After"), err
}

func (a *asker) close() {
	if a.c != nil {
		_ = a.c.Close() // everything was read, or it is broken
		a.c = nil
	}
}

// dialFrom connects over TCP from one of this machine's addresses, within askFor.
func dialFrom(ctx context.Context, from net.IP, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: askFor}
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	return d.DialContext(ctx, "tcp", addr)
}

// askGateway lets each asker ask every so often for so long.
func askGateway(ctx context.Context, askers []*asker, every, length time.Duration) httpAnswers {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var mu sync.Mutex
	var all httpAnswers
	var wg sync.WaitGroup
	for i, a := range askers {
		wg.Go(func() {
			defer a.close()
			mine := a.run(ctx, every*time.Duration(i)/time.Duration(len(askers)), every)
			mu.Lock()
			defer mu.Unlock()
			all.add(mine)
		})
	}
	wg.Wait()
	return all
}

// run sends a request at each interval, the first one after a delay. After a late answer it sends the next request
// late, and does not catch up.
func (a *asker) run(ctx context.Context, first, every time.Duration) (got httpAnswers) {
	due := time.Now().Add(first)
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			got.late = append(got.late, time.Since(due))
		case <-ctx.Done():
			return got
		}
		begun := time.Now()
		code, after, err := a.ask(context.WithoutCancel(ctx)) // the last one ends after its time
		switch took := time.Since(begun); {
		case err != nil:
			got.failed++
			got.why = err
		case code == http.StatusOK:
			got.took = append(got.took, took)
		case code == http.StatusTooManyRequests:
			got.refused++
			if after == "" {
				got.bare++
			}
		default:
			got.failed++
			got.why = fmt.Errorf("answered %d", code)
		}
		due = due.Add(every)
		if now := time.Now(); due.Before(now) {
			due = now
		}
		timer.Reset(time.Until(due))
	}
}
