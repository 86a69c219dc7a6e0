package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"allium/bench/measure"
)

// How clients ask a gateway.
const (
	askers  = 32 // at a time, each on a connection that it keeps
	askSize = 4 << 10
	askWarm = 3 * time.Second
	askFor  = 10 * time.Second // the longest wait for an answer
)

// answers are those of a gateway.
type answers struct {
	took            []time.Duration // of the requests answered with 200; sorted
	later           []time.Duration // of these, what was due after floodBegins; sorted
	refused, failed int             // with 429 or 503, and otherwise
	bare            int             // of the refused, without Retry-After
	why             error           // of one that failed
}

func (a answers) all() int     { return len(a.took) + a.refused + a.failed }
func (a answers) p99() float64 { return measure.Millis(a.took, 99) }

// add adds b, and sorts what they took.
func (a *answers) add(b answers) {
	a.merge(b)
	slices.Sort(a.took)
}

// merge adds b.
func (a *answers) merge(b answers) {
	a.took, a.later = append(a.took, b.took...), append(a.later, b.later...)
	a.refused, a.failed, a.bare = a.refused+b.refused, a.failed+b.failed, a.bare+b.bare
	if b.why != nil {
		a.why = b.why
	}
}

// askPage asks for a page at a rate for some time. A client that is answered late asks the next late.
func askPage(ctx context.Context, page string, rate float64, length time.Duration) (all answers) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	client := &http.Client{Timeout: askFor, Transport: &http.Transport{MaxIdleConnsPerHost: askers}}
	defer client.CloseIdleConnections()
	every := time.Duration(float64(time.Second) * askers / rate)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for i := range askers {
		asking.Go(func() {
			var mine answers
			timer := time.NewTimer(every * time.Duration(i) / askers)
			defer timer.Stop()
			for {
				select {
				case <-timer.C:
				case <-ctx.Done():
					mu.Lock()
					defer mu.Unlock()
					all.add(mine)
					return
				}
				begun := time.Now()
				// The last one ends after its time.
				code, _, err := measure.Get(context.WithoutCancel(ctx), client, page)
				took := time.Since(begun)
				switch {
				case err == nil && code == http.StatusOK:
					mine.took = append(mine.took, took)
				case code == http.StatusTooManyRequests:
					mine.refused++
				default:
					mine.failed++
					mine.why = fmt.Errorf("answered %d, %w", code, err)
				}
				timer.Reset(max(0, every-took))
			}
		})
	}
	asking.Wait()
	return all
}
