package sessions

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/protocols/session"
)

// The load of small requests.
const (
	rpcCalls   = 4000 // of a round, one after the other
	rpcCallers = 64   // at once
	rpcFor     = 2 * time.Second
)

// RPC measures small requests over one session.
func RPC(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	over, err := rpcOver(ctx, s, "TCP", bed.OnTCP)
	if err != nil {
		return nil, err
	}
	quic, err := rpcOver(ctx, s, "QUIC", bed.OnQUIC)
	return append(over, quic...), err
}

// rpcOver asks a server in another process, in turn over a session and over a raw stream, and then from many goroutines
// at once.
func rpcOver(ctx context.Context, s *bed.Settings, name, listen string) ([]measure.Row, error) {
	server, err := bed.Reference(ctx, "sessions", listen)
	if err != nil {
		return nil, err
	}
	h, _, err := bed.BuildHost(ctx, []string{})
	if err != nil {
		return nil, err
	}
	cfg := session.DefaultConfig()
	c, err := startCaller(ctx, h, server.Addr, cfg)
	if err != nil {
		return nil, err
	}
	raw, err := h.NewStream(ctx, c.server, echoProtocol)
	if err != nil {
		return nil, err
	}
	var (
		rpc   = "rpc over " + name + ": "
		p50   = measure.Row{What: rpc + "p50 of a call", Unit: "µs"}
		p99   = measure.Row{What: rpc + "p99 of a call", Unit: "µs"}
		echo  = measure.Row{What: rpc + "p50 of a raw echo", Unit: "µs"}
		echo9 = measure.Row{What: rpc + "p99 of a raw echo", Unit: "µs"}
		ratio = measure.Row{What: rpc + "p50 ÷ raw echo", Unit: "×", Target: "≤ 1.5"}
		rate  = measure.Row{What: rpc + strconv.Itoa(rpcCallers) + " callers", Unit: "calls/s", Target: "≥ 20000"}
		cpu   = measure.Row{What: rpc + "CPU of a call, both ends", Unit: "µs"}
		other = measure.Row{What: rpc + "CPU of other programs", Unit: "% of cores"}
	)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	for range s.Rounds {
		calls, echoes, err := c.compare(ctx, raw)
		if err != nil {
			return nil, err
		}
		p50.Values = append(p50.Values, micros(measure.Quantile(calls, 50)))
		p99.Values = append(p99.Values, micros(measure.Quantile(calls, 99)))
		echo.Values = append(echo.Values, micros(measure.Quantile(echoes, 50)))
		echo9.Values = append(echo9.Values, micros(measure.Quantile(echoes, 99)))
		from, err := measure.Take(server)
		if err != nil {
			return nil, err
		}
		perSecond, err := c.callFor(ctx, rpcCallers, rpcFor)
		if err != nil {
			return nil, err
		}
		to, err := measure.Take(server)
		if err != nil {
			return nil, err
		}
		rate.Values = append(rate.Values, perSecond)
		used := to.Node - from.Node + to.Self - from.Self
		_, others := to.Since(from)
		other.Values = append(other.Values, others)
		cpu.Values = append(cpu.Values, micros(used)/(perSecond*to.At.Sub(from.At).Seconds()))
	}
	ratio.Values = measure.Pairs(p50.Values, echo.Values)
	if err := c.close(); err != nil {
		return nil, err
	}
	_, err = server.Stop()
	return []measure.Row{p50, p99, echo, echo9, ratio, rate, cpu, other}, err
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
