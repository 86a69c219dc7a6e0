package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"allium/bench/clients"
	"allium/bench/measure"
)

// The clients of a flood. Each has its own loopback address, because a gateway bounds the rate of each address.
const (
	floodClients = 32
	askSize      = 4 << 10 // bytes of the page
	askWarm      = 3 * time.Second
	floodTick    = time.Millisecond // interval at which the requests that are due are sent
	floodBegins  = 5 * time.Second  // until the gateway has found out what it can do
)

// flood asks a gateway for one page from many clients. It does no more for a request than it must, because it shares
// the cores with the node.
type flood struct {
	addr    string
	request []byte
	unsent  int // requests that were due while every connection waited for an answer
}

// floodConn is a connection that is kept, or none yet.
type floodConn struct {
	net.Conn
	from   net.IP
	buffer []byte
}

func newFlood(page string) *flood {
	addr, path, _ := strings.Cut(strings.TrimPrefix(page, "http://"), "/")
	return &flood{addr: addr, request: fmt.Appendf(nil, "GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr)}
}

// run asks over n connections: at a rate, or as fast as they are answered if that is 0. An answer is timed from when
// the request was due.
func (f *flood) run(ctx context.Context, n int, rate float64, length time.Duration) (all clients.Answers) {
	due := make(chan time.Time)
	begun := time.Now()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for i := range n {
		asking.Go(func() {
			c := &floodConn{from: net.IPv4(127, 0, 1, byte(1+i%floodClients)), buffer: make([]byte, 2*askSize)}
			var mine clients.Answers
			if rate > 0 {
				for at := range due {
					n := len(mine.Took)
					f.count(ctx, c, at, &mine)
					if at.Sub(begun) > floodBegins {
						mine.Later = append(mine.Later, mine.Took[n:]...)
					}
				}
			}
			for at := begun; rate == 0 && at.Sub(begun) < length && ctx.Err() == nil; at = time.Now() {
				f.count(ctx, c, at, &mine)
			}
			c.drop()
			mu.Lock()
			defer mu.Unlock()
			all.Merge(mine)
		})
	}
	f.unsent = 0
	if rate > 0 {
		f.send(ctx, due, rate, length)
	}
	close(due)
	asking.Wait()
	all.Sort()
	return all
}

// send hands out the requests that are due, for some time.
func (f *flood) send(ctx context.Context, due chan<- time.Time, rate float64, length time.Duration) {
	tick := time.NewTicker(floodTick)
	defer tick.Stop()
	begun, every := time.Now(), time.Duration(float64(time.Second)/rate)
	next := begun
	for now := begun; now.Sub(begun) < length && ctx.Err() == nil; now = <-tick.C {
		for ; next.Before(now); next = next.Add(every) {
			select {
			case due <- next:
			default:
				f.unsent++
			}
		}
	}
}

// ask asks once. Over a connection that the gateway has closed meanwhile it asks again.
func (f *flood) ask(
	ctx context.Context, c *floodConn, due time.Time,
) (took time.Duration, a measure.Answer, err error) {
	kept := c.Conn != nil
	a, err = f.once(ctx, c)
	if err != nil && kept {
		a, err = f.once(ctx, c)
	}
	return time.Since(due), a, err
}

func (f *flood) once(ctx context.Context, c *floodConn) (a measure.Answer, err error) {
	if c.Conn == nil {
		if c.Conn, err = clients.DialFrom(ctx, c.from, f.addr); err != nil {
			c.Conn = nil
			return a, err
		}
	}
	if err = c.SetDeadline(time.Now().Add(clients.Within)); err == nil {
		_, err = c.Write(f.request)
	}
	if err == nil {
		a, err = measure.ReadAnswer(c, c.buffer)
	}
	if err != nil || bytes.Contains(a.Head, []byte("\r\nConnection: close")) {
		c.drop()
	}
	return a, err
}

func (c *floodConn) drop() {
	if c.Conn != nil {
		_ = c.Close() // everything was read, or it is broken
		c.Conn = nil
	}
}

// count asks once and counts the answer.
func (f *flood) count(ctx context.Context, c *floodConn, due time.Time, a *clients.Answers) {
	took, got, err := f.ask(ctx, c, due)
	switch {
	case err != nil:
		a.Failed++
		a.Why = err
	case got.Code == http.StatusOK:
		a.Took = append(a.Took, took)
	case got.Code == http.StatusTooManyRequests || got.Code == http.StatusServiceUnavailable:
		a.Refused++
		if !bytes.Contains(got.Head, []byte("\r\nRetry-After: ")) {
			a.Bare++
		}
	default:
		a.Failed++
		a.Why = fmt.Errorf("answered %d: %s", got.Code, got.Body)
	}
}
