// Package clients asks servers over HTTP from this process: at a rate, or as fast as they answer.
package clients

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

// Within limits the wait of a normal client for an answer.
const Within = 10 * time.Second

// Answers holds the answers that clients of a gateway got.
type Answers struct {
	Took    []time.Duration // of the requests answered with 200; sorted
	Later   []time.Duration // of these, the part that the load counts apart; sorted
	Late    []time.Duration // how late clients that slept woke up, so what the load program itself adds; sorted
	Refused int             // with 429, in a flood also with 503
	Bare    int             // of these, without Retry-After
	Failed  int
	Why     error // of one that failed; nil: all were answered
}

// All is the number of requests.
func (a Answers) All() int { return len(a.Took) + a.Refused + a.Failed }

// P99 is the 99th percentile of the accepted requests in milliseconds, 0 where there are none.
func (a Answers) P99() float64 { return measure.Millis(a.Took, 99) }

// P50 is the median of the accepted requests in milliseconds, 0 where there are none.
func (a Answers) P50() float64 { return measure.Millis(a.Took, 50) }

// Add adds b and sorts what the requests took.
func (a *Answers) Add(b Answers) {
	a.Merge(b)
	a.Sort()
}

// Merge adds b without sorting.
func (a *Answers) Merge(b Answers) {
	a.Took, a.Late, a.Later = append(a.Took, b.Took...), append(a.Late, b.Late...), append(a.Later, b.Later...)
	a.Refused, a.Bare, a.Failed = a.Refused+b.Refused, a.Bare+b.Bare, a.Failed+b.Failed
	a.Why = cmp.Or(b.Why, a.Why)
}

// Sort sorts the times.
func (a *Answers) Sort() {
	slices.Sort(a.Took)
	slices.Sort(a.Late)
	slices.Sort(a.Later)
}

// Asker is a client that asks for one page, in the goroutine that measures: one
// more for each connection would be scheduled in between.
type Asker struct {
	addr, request string
	from          net.IP // nil: any
	keep          bool   // the connection

	c net.Conn
	r *bufio.Reader
}

// NewAsker asks for page, from an address of loopback if from is one.
func NewAsker(page string, from net.IP, keep bool) (*Asker, error) {
	u, err := url.Parse(page)
	if err != nil {
		return nil, err
	}
	header := "Host: " + u.Host + "\r\n"
	if !keep {
		header += "Connection: close\r\n"
	}
	return &Asker{addr: u.Host, request: "GET " + u.RequestURI() + " HTTP/1.1\r\n" + header + "\r\n", from: from,
		keep: keep}, nil
}

// ask asks once, over a new connection where there is none.
func (a *Asker) ask(ctx context.Context) (code int, retryAfter string, err error) {
	if a.c == nil {
		if a.c, err = DialFrom(ctx, a.from, a.addr); err != nil {
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
	if err := a.c.SetDeadline(time.Now().Add(Within)); err != nil {
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

func (a *Asker) close() {
	if a.c != nil {
		_ = a.c.Close() // everything was read, or it is broken
		a.c = nil
	}
}

// DialFrom connects over TCP from one of this machine's addresses, within [Within].
func DialFrom(ctx context.Context, from net.IP, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: Within}
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	return d.DialContext(ctx, "tcp", addr)
}

// Ask lets n askers ask for page every so often for so long, over connections that they keep or over new ones.
func Ask(ctx context.Context, page string, n int, keep bool, every, length time.Duration) (a Answers, err error) {
	askers := make([]*Asker, n)
	for i := range askers {
		if askers[i], err = NewAsker(page, nil, keep); err != nil {
			return a, err
		}
	}
	return Gateway(ctx, askers, every, length), nil
}

// Gateway lets each asker ask every so often for so long.
func Gateway(ctx context.Context, askers []*Asker, every, length time.Duration) Answers {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var mu sync.Mutex
	var all Answers
	var wg sync.WaitGroup
	for i, a := range askers {
		wg.Go(func() {
			defer a.close()
			mine := a.run(ctx, every*time.Duration(i)/time.Duration(len(askers)), every)
			mu.Lock()
			defer mu.Unlock()
			all.Add(mine)
		})
	}
	wg.Wait()
	return all
}

// run sends a request at each interval, the first one after a delay. After a late answer it sends the next request
// late, and does not catch up.
func (a *Asker) run(ctx context.Context, first, every time.Duration) (got Answers) {
	due := time.Now().Add(first)
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			got.Late = append(got.Late, time.Since(due))
		case <-ctx.Done():
			return got
		}
		begun := time.Now()
		code, after, err := a.ask(context.WithoutCancel(ctx)) // the last one ends after its time
		switch took := time.Since(begun); {
		case err != nil:
			got.Failed++
			got.Why = err
		case code == http.StatusOK:
			got.Took = append(got.Took, took)
		case code == http.StatusTooManyRequests:
			got.Refused++
			if after == "" {
				got.Bare++
			}
		default:
			got.Failed++
			got.Why = fmt.Errorf("answered %d", code)
		}
		due = due.Add(every)
		if now := time.Now(); due.Before(now) {
			due = now
		}
		timer.Reset(time.Until(due))
	}
}
