package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"allium/bench/measure"
)

// benchFetch measures a cold fetch between two processes over TCP.
func benchFetch(ctx context.Context, s *settings) ([]row, error) {
	return s.fetchOver(ctx, "fetch", onTCP, "≥ 0.5")
}

// benchFetchQUIC is benchFetch over QUIC.
func benchFetchQUIC(ctx context.Context, s *settings) ([]row, error) {
	return s.fetchOver(ctx, "fetch over QUIC", onQUIC, "≥ 0.65")
}

// fetchOver measures cold fetches on the transport of listen. The ratio to the
// raw stream has the target ofRaw.
func (s *settings) fetchOver(ctx context.Context, what, listen, ofRaw string) ([]row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, out := s.large(), filepath.Join(s.dir, "out")
	key, _, err := s.add(ctx, s.provider(), file)
	if err != nil {
		return nil, err
	}
	from, err := s.startNodeOn(ctx, listen, s.provider())
	if err != nil {
		return nil, err
	}
	pipe, err := measure.Start(ctx, nil, self, "reference-serve", file, listen)
	if err != nil {
		return nil, err
	}
	var fetch, cpu, ref, raw, rss []float64
	for range s.rounds {
		got, err := s.fetchCold(ctx, listen, from, key)
		if err != nil {
			return nil, err
		}
		p, err := run(ctx, self, "reference-pull", pipe.Addr, out)
		if err != nil {
			return nil, err
		}
		r, err := run(ctx, self, "reference-raw", pipe.Addr)
		if err != nil {
			return nil, err
		}
		var pullSeconds, rawSeconds float64
		if _, err := fmt.Sscan(p.out, &pullSeconds); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(r.out, &rawSeconds); err != nil {
			return nil, err
		}
		mbps := float64(s.size) / 1e6
		fetch, ref, raw = append(fetch, mbps/got.seconds), append(ref, mbps/pullSeconds), append(raw, mbps/rawSeconds)
		cpu, rss = append(cpu, got.cpu*(1<<30)/float64(s.size)), append(rss, mb(got.rss))
		if err := os.Remove(out); err != nil {
			return nil, err
		}
	}
	if _, err := pipe.Stop(); err != nil {
		return nil, err
	}
	served, err := from.Stop()
	if err != nil {
		return nil, err
	}
	return []row{
		{What: what + ": rate", Unit: "MB/s", Values: fetch},
		{What: what + ": CPU of both nodes", Unit: "s/GiB", Values: cpu},
		{What: what + ": reference pipe", Unit: "MB/s", Values: ref},
		{What: what + ": raw stream", Unit: "MB/s", Values: raw},
		{What: what + " ÷ reference pipe", Unit: "×", Target: "≥ 1.0", Values: measure.Pairs(fetch, ref)},
		{What: what + " ÷ raw stream", Unit: "×", Target: ofRaw, Values: measure.Pairs(fetch, raw)},
		{What: what + ": peak RSS of the fetching node", Unit: "MB", Target: "≤ 120", Values: rss},
		{What: what + ": peak RSS of the providing node", Unit: "MB", Target: "≤ 150", Values: []float64{mb(served)}},
	}, nil
}

// fetched holds the time, CPU time and memory that one cold fetch took.
type fetched struct {
	seconds float64 // of the command
	cpu     float64 // seconds that both nodes computed meanwhile
	rss     int64   // peak of the fetching node, bytes
}

// fetchCold starts a node with an empty store on the transport of listen and
// fetches key from the provider.
func (s *settings) fetchCold(ctx context.Context, listen string, from *process, key string) (f fetched, err error) {
	home := filepath.Join(s.dir, "fetcher")
	if err := os.RemoveAll(home); err != nil {
		return f, err
	}
	to, err := s.startNodeOn(ctx, listen, home, from.Addr)
	if err != nil {
		return f, err
	}
	if _, err := run(ctx, s.allium, "--home", home, "connect", from.Addr); err != nil {
		return f, err
	}
	both := func() (seconds float64, err error) {
		for _, p := range []*process{from, to} {
			used, err := p.CPU()
			if err != nil {
				return 0, err
			}
			seconds += used.Seconds()
		}
		return seconds, nil
	}
	before, err := both()
	if err != nil {
		return f, err
	}
	u, err := run(ctx, s.allium, "--home", home, "get", key, "--store-only")
	if err != nil {
		return f, err
	}
	after, err := both()
	if err != nil {
		return f, err
	}
	f.seconds, f.cpu = u.wall.Seconds(), after-before
	f.rss, err = to.Stop()
	return f, err
}
