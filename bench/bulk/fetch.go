// Package bulk measures adds, fetches and shares of files between whole nodes.
package bulk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"allium/bench/bed"
	"allium/bench/measure"
)

// Fetch measures a cold fetch between two processes over TCP.
func Fetch(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	return fetchOver(ctx, s, "fetch", bed.OnTCP, "≥ 0.5")
}

// FetchQUIC is benchFetch over QUIC.
func FetchQUIC(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	return fetchOver(ctx, s, "fetch over QUIC", bed.OnQUIC, "≥ 0.65")
}

// fetchOver measures cold fetches on the transport of listen. The ratio to the
// raw stream has the target ofRaw.
func fetchOver(ctx context.Context, s *bed.Settings, what, listen, ofRaw string) ([]measure.Row, error) {
	file, out := s.Large(), filepath.Join(s.Dir, "out")
	key, _, err := s.Add(ctx, s.Provider(), file)
	if err != nil {
		return nil, err
	}
	from, err := s.StartNodeOn(ctx, listen, s.Provider())
	if err != nil {
		return nil, err
	}
	pipe, err := bed.Reference(ctx, "serve", file, listen)
	if err != nil {
		return nil, err
	}
	var fetch, cpu, ref, raw, rss []float64
	for range s.Rounds {
		got, err := s.FetchCold(ctx, listen, from, key)
		if err != nil {
			return nil, err
		}
		p, err := bed.RunReference(ctx, "pull", pipe.Addr, out)
		if err != nil {
			return nil, err
		}
		r, err := bed.RunReference(ctx, "raw", pipe.Addr)
		if err != nil {
			return nil, err
		}
		var pullSeconds, rawSeconds float64
		if _, err := fmt.Sscan(p.Out, &pullSeconds); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(r.Out, &rawSeconds); err != nil {
			return nil, err
		}
		mbps := float64(s.Size) / 1e6
		fetch, ref, raw = append(fetch, mbps/got.Seconds), append(ref, mbps/pullSeconds), append(raw, mbps/rawSeconds)
		cpu, rss = append(cpu, got.CPU*(1<<30)/float64(s.Size)), append(rss, bed.MB(got.RSS))
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
	return []measure.Row{
		{What: what + ": rate", Unit: "MB/s", Values: fetch},
		{What: what + ": CPU of both nodes", Unit: "s/GiB", Values: cpu},
		{What: what + ": reference pipe", Unit: "MB/s", Values: ref},
		{What: what + ": raw stream", Unit: "MB/s", Values: raw},
		{What: what + " ÷ reference pipe", Unit: "×", Target: "≥ 1.0", Values: measure.Pairs(fetch, ref)},
		{What: what + " ÷ raw stream", Unit: "×", Target: ofRaw, Values: measure.Pairs(fetch, raw)},
		{What: what + ": peak RSS of the fetching node", Unit: "MB", Target: "≤ 120", Values: rss},
		{What: what + ": peak RSS of the providing node", Unit: "MB", Target: "≤ 150",
			Values: []float64{bed.MB(served)}},
	}, nil
}
