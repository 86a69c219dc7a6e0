package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"allium/bench/clients"
	"allium/bench/measure"
	"allium/internal/limits"
)

// The slow clients of an attack.
const (
	slowConns = 5000
	slowHosts = 20 // addresses they come from: 250 each, within the bound of one
	slowEvery = 500 * time.Millisecond
	slowRamp  = 5 * time.Second // until all have begun
	slowBody  = 1_000_000
)

// How slow clients come back when they are cut off or refused.
const (
	// comeSlowly waits about a second after a connection that stayed open. After one that was answered or refused at
	// once, it waits twice as long as the last time, up to 8 s. It stands for an attacker with so many connections and
	// no more.
	comeSlowly = "slowly"
	// justHeaders does so too, and sends no bodies: these are refused or cut off
	// sooner, so that fewer than the listener may have are open at once.
	justHeaders = "headers"
	// comeAtOnce is back at the next tick: a flood of connections.
	comeAtOnce = "at-once"
)

// slowCounts holds the counts of slow clients, since they began but for Open.
type slowCounts struct {
	Open     int64         // connections now
	Dialled  int64         // connections begun
	Failed   int64         // of these, those that did not come about
	Cut      int64         // closed without an answer
	Answered map[int]int64 // by status
	CPU      time.Duration // of their program
}

// slowTally counts for slowClients.
type slowTally struct {
	open, dialled, failed, cut atomic.Int64

	mu       sync.Mutex
	answered map[int]int64
}

func (t *slowTally) answer(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered[status]++
}

func (t *slowTally) counts() (slowCounts, error) {
	own, err := measure.OwnCPU()
	t.mu.Lock()
	defer t.mu.Unlock()
	answered := map[int]int64{}
	for s, n := range t.answered {
		answered[s] = n
	}
	return slowCounts{t.open.Load(), t.dialled.Load(), t.failed.Load(), t.cut.Load(), answered, own}, err
}

// HoldSlowly holds connections to addr, every other one with a header that does
// not end, the rest with a body if there are to be some, until its input ends. It writes its counts for
// each line that it reads.
func HoldSlowly(ctx context.Context, addr, come, token string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t := &slowTally{answered: map[int]int64{}}
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for i := range slowConns {
		c := slowClient{t: t, addr: addr, from: net.IPv4(127, 0, 0, byte(2+i%slowHosts)),
			begin: "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "}
		if come != justHeaders && i/slowHosts%2 == 0 { // from every address
			c.begin = "POST /o HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token +
				"\r\nContent-Length: " + strconv.Itoa(slowBody) + "\r\n\r\n"
		}
		clients.Go(func() { c.run(ctx, slowRamp*time.Duration(i)/slowConns, come == comeAtOnce) })
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		c, err := t.counts()
		if err != nil {
			return err
		}
		if err := out.Encode(c); err != nil {
			return err
		}
	}
	return nil
}

// slowClient is one of them.
type slowClient struct {
	t           *slowTally
	addr, begin string
	from        net.IP
}

// run connects again and again, first after a while.
func (c *slowClient) run(ctx context.Context, first time.Duration, atOnce bool) {
	const least, most = time.Second, 8 * time.Second
	back := least
	for wait := first; limits.Sleep(ctx, wait) == nil; {
		stood := c.hold(ctx)
		switch {
		case atOnce:
			wait = slowEvery
		case stood:
			wait, back = around(least), least
		default:
			wait, back = around(back), min(most, 2*back)
		}
	}
}

// around is half of d to one and a half: what is cut off together does not come
// back together.
func around(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// hold keeps one connection and sends a byte now and then, until it is cut off
// or answered; stood: it was slow at least once.
func (c *slowClient) hold(ctx context.Context) (stood bool) {
	c.t.dialled.Add(1)
	conn, err := clients.DialFrom(ctx, c.from, c.addr)
	if err != nil {
		c.t.failed.Add(1)
		return false
	}
	c.t.open.Add(1)
	defer c.t.open.Add(-1)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err = io.WriteString(conn, c.begin)
	answer := make([]byte, 512)
	for err == nil {
		var n int
		_ = conn.SetReadDeadline(time.Now().Add(slowEvery)) // what is broken says so below
		n, err = conn.Read(answer)
		if f := bytes.Fields(answer[:n]); len(f) > 1 {
			if status, err := strconv.Atoi(string(f[1])); err == nil {
				c.t.answer(status)
				return stood
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			stood = true
			_, err = conn.Write([]byte("a"))
		}
	}
	if ctx.Err() == nil {
		c.t.cut.Add(1)
	}
	return stood
}

// attackers are slow clients in a process of their own, so that neither the
// askers wait for them nor their CPU is taken for somebody else's.
type attackers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startAttackers(ctx context.Context, addr, come, token string) (*attackers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &attackers{cmd: exec.CommandContext(ctx, self, "slow-clients", addr, come, token)}
	a.cmd.Stderr = os.Stderr
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = json.NewDecoder(out)
	return a, a.cmd.Start()
}

// counts asks what they saw.
func (a *attackers) counts() (c slowCounts, err error) {
	if _, err := fmt.Fprintln(a.in); err != nil {
		return c, err
	}
	err = a.out.Decode(&c)
	return c, err
}

// stop ends them and waits.
func (a *attackers) stop() error {
	return errors.Join(a.in.Close(), a.cmd.Wait())
}
