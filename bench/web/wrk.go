package web

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
)

// The threads and connections of wrk, and the length of each run.
const (
	httpThreads, httpConns = 2, 32
	httpFor                = 4 * time.Second
	rangeBytes             = 64 << 10
)

// loaded holds the results of wrk, and the CPU time that the server took.
type loaded struct {
	rate float64 // requests a second
	p99  time.Duration
	cpu  time.Duration // of the server, a request
}

var (
	wrkRate  = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkP99   = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s)`)
	wrkTotal = regexp.MustCompile(`(\d+) requests in`)
	wrkBad   = regexp.MustCompile(`Non-2xx or 3xx responses: \d+|Socket errors: .*`)
)

// wrk loads url, which p serves.
func wrk(ctx context.Context, p *measure.Process, url, script string) (l loaded, err error) {
	args := []string{"-t" + strconv.Itoa(httpThreads), "-c" + strconv.Itoa(httpConns), "-d" + httpFor.String(),
		"--latency"}
	if script != "" {
		args = append(args, "-s", script)
	}
	before, err := p.CPU()
	if err != nil {
		return l, err
	}
	u, err := bed.Run(ctx, "wrk", append(args, url)...)
	if err != nil {
		return l, err
	}
	after, err := p.CPU()
	if err != nil {
		return l, err
	}
	if bad := wrkBad.FindString(u.Out); bad != "" {
		return l, fmt.Errorf("%s: %s", url, bad)
	}
	var requests float64
	for _, f := range []struct {
		re *regexp.Regexp
		to *float64
	}{{wrkRate, &l.rate}, {wrkTotal, &requests}} {
		m := f.re.FindStringSubmatch(u.Out)
		if m == nil {
			return l, fmt.Errorf("wrk printed no %s: %s", f.re, u.Out)
		}
		if *f.to, err = strconv.ParseFloat(m[1], 64); err != nil {
			return l, err
		}
	}
	m := wrkP99.FindStringSubmatch(u.Out)
	if m == nil || requests == 0 {
		return l, fmt.Errorf("wrk printed no p99: %s", u.Out)
	}
	if l.p99, err = time.ParseDuration(m[1] + strings.Replace(m[2], "us", "µs", 1)); err != nil {
		return l, err
	}
	l.cpu = time.Duration(float64(after-before) / requests)
	return l, nil
}
