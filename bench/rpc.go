package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/session"
)

// The load of small requests.
const (
	rpcCalls   = 4000 // of a round, one after the other
	rpcCallers = 64   // at once
	rpcFor     = 2 * time.Second
	rpcFree    = 1 << 20 // requests per second that a server takes of one peer: no limit
)

// benchRPC measures small requests over one session.
func benchRPC(ctx context.Context, s *settings) ([]row, error) {
	over, err := s.rpcOver(ctx, "TCP", onTCP)
	if err != nil {
		return nil, err
	}
	quic, err := s.rpcOver(ctx, "QUIC", onQUIC)
	return append(over, quic...), err
}

// startSessions starts the reference server of sessions.
func startSessions(ctx context.Context, listen string, rate int64, work int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, self, "reference-sessions", listen, strconv.FormatInt(rate, 10), strconv.Itoa(work))
}

// rpcOver asks a server in a process of its own, in turn over a session and
// over a raw stream, and then from many goroutines at once.
func (s *settings) rpcOver(ctx context.Context, name, listen string) ([]row, error) {
	server, err := startSessions(ctx, listen, rpcFree, 0)
	if err != nil {
		return nil, err
	}
	h, _, err := buildHost(ctx, []string{})
	if err != nil {
		return nil, err
	}
	cfg := session.DefaultConfig()
	c, err := startCaller(ctx, h, server.addr, cfg)
	if err != nil {
		return nil, err
	}
	raw, err := h.NewStream(ctx, c.server, echoProtocol)
	if err != nil {
		return nil, err
	}
	var (
		rpc   = "rpc over " + name + ": "
		p50   = row{what: rpc + "p50 of a call", unit: "µs"}
		p99   = row{what: rpc + "p99 of a call", unit: "µs"}
		echo  = row{what: rpc + "p50 of a raw echo", unit: "µs"}
		echo9 = row{what: rpc + "p99 of a raw echo", unit: "µs"}
		ratio = row{what: rpc + "p50 ÷ raw echo", unit: "×", target: "≤ 1.5"}
		rate  = row{what: rpc + strconv.Itoa(rpcCallers) + " callers", unit: "calls/s", target: "≥ 20000"}
		cpu   = row{what: rpc + "CPU of a call, both ends", unit: "µs"}
		other = row{what: rpc + "CPU of other programs", unit: "% of cores"}
	)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	for range s.rounds {
		calls, echoes, err := c.compare(ctx, raw)
		if err != nil {
			return nil, err
		}
		p50.values = append(p50.values, micros(quantile(calls, 50)))
		p99.values = append(p99.values, micros(quantile(calls, 99)))
		echo.values = append(echo.values, micros(quantile(echoes, 50)))
		echo9.values = append(echo9.values, micros(quantile(echoes, 99)))
		from, err := take(server)
		if err != nil {
			return nil, err
		}
		perSecond, err := c.callFor(ctx, rpcCallers, rpcFor)
		if err != nil {
			return nil, err
		}
		to, err := take(server)
		if err != nil {
			return nil, err
		}
		rate.values = append(rate.values, perSecond)
		used := to.node - from.node + to.self - from.self
		_, others := to.since(from)
		other.values = append(other.values, others)
		cpu.values = append(cpu.values, micros(used)/(perSecond*to.at.Sub(from.at).Seconds()))
	}
	ratio.values = pairs(p50.values, echo.values)
	if err := c.close(); err != nil {
		return nil, err
	}
	_, err = server.stop()
	return []row{p50, p99, echo, echo9, ratio, rate, cpu, other}, err
}

// compare times calls and raw echoes in turn; both sorted.
func (c *caller) compare(ctx context.Context, raw network.Stream) (calls, echoes []time.Duration, err error) {
	buf := make([]byte, frameSize)
	for range rpcCalls {
		begun := time.Now()
		if _, err := raw.Write(buf); err != nil {
			return nil, nil, err
		}
		if _, err := io.ReadFull(raw, buf); err != nil {
			return nil, nil, err
		}
		echoed := time.Now()
		if err := c.call(ctx); err != nil {
			return nil, nil, err
		}
		calls, echoes = append(calls, time.Since(echoed)), append(echoes, echoed.Sub(begun))
	}
	slices.Sort(calls)
	slices.Sort(echoes)
	return calls, echoes, nil
}
