package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
	"allium/protocols/b3"
)

// The load that fills the cache of answers, and the parts of the ring that `allium why` reads.
const (
	rememberedKeys = 100_000
	failedKeys     = 2_000 // more than the ring keeps
)

// Memory measures what remembered answers and a full ring take. The node holds the objects
// itself, because only answers from its own store come so fast that the first is still remembered when
// the last arrives.
func Memory(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	const what = "resolve, 100,000 keys: "
	empty := measure.Row{What: what + "RSS above an empty node", Unit: "MB", Target: "≤ 128"}
	before := measure.Row{What: what + "RSS above the same node before", Unit: "MB"}
	entries := measure.Row{What: what + "remembered", Unit: "answers", Target: "100000"}
	estimate := measure.Row{What: what + "memory of these, estimated", Unit: "MB", Target: "≤ 50"}
	ring := measure.Row{What: what + "lookups in the ring", Unit: "", Target: "≤ 4096"}
	for i := range s.Rounds {
		bare, err := emptyRSS(ctx, s, fmt.Sprint("resolve-empty", i))
		if err != nil {
			return nil, err
		}
		got, err := fillResolver(ctx, s, fmt.Sprint("resolve-memory", i))
		if err != nil {
			return nil, err
		}
		empty.Values = append(empty.Values, bed.MB(got.rss-bare))
		before.Values = append(before.Values, bed.MB(got.rss-got.idle))
		entries.Values = append(entries.Values, got.entries)
		estimate.Values = append(estimate.Values, got.bytes/1e6)
		ring.Values = append(ring.Values, got.ring)
	}
	return []measure.Row{empty, before, entries, estimate, ring}, nil
}

// emptyRSS returns the memory of a node without objects in bytes.
func emptyRSS(ctx context.Context, s *bed.Settings, name string) (rss int64, err error) {
	home := filepath.Join(s.Dir, name)
	if err := bed.Unlimited(home); err != nil {
		return 0, err
	}
	p, err := s.StartNode(ctx, home)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.End()) }()
	time.Sleep(bed.IdleFor)
	return p.Memory()
}

// filled is a node whose cache of answers, and ring of lookups, are full.
type filled struct {
	idle, rss            int64 // bytes, before and after
	entries, bytes, ring float64
}

// fillResolver starts a node and asks it for more keys than it can remember.
func fillResolver(ctx context.Context, s *bed.Settings, name string) (f filled, err error) {
	p, keys, err := startIndex(ctx, s, name, rememberedKeys)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.End()) }()
	time.Sleep(bed.IdleFor)
	if f.idle, err = p.Memory(); err != nil {
		return f, err
	}
	unknown := make([]string, failedKeys)
	for i := range unknown {
		unknown[i] = "/resolve/" + b3.Sum(fmt.Appendf(nil, "nobody has %d", i)).String()
	}
	// No peer is known.
	failing := clients.Load{Paths: unknown, Conns: resolveConns, Want: http.StatusServiceUnavailable}
	if _, err := clients.Pound(ctx, p, failing); err != nil {
		return f, err
	}
	paths := make([]string, len(keys))
	for i, key := range keys {
		paths[i] = "/resolve/" + key
	}
	once := clients.Load{Paths: paths, Conns: resolveConns, Want: http.StatusOK}
	if _, err := clients.Pound(ctx, p, once); err != nil {
		return f, err
	}
	again := clients.Load{Paths: paths[len(paths)-failedKeys:], Conns: resolveConns, Want: http.StatusOK}
	if _, err := clients.Pound(ctx, p, again); err != nil { // hits
		return f, err
	}
	if f.rss, err = p.Memory(); err != nil {
		return f, err
	}
	now, err := p.Counters(ctx)
	if err != nil {
		return f, err
	}
	f.entries, f.bytes = now["index_cache_entries"], now["index_cache_bytes"]
	for _, part := range []string{"failed", "ordinary", "hits", "running"} {
		f.ring += now[fmt.Sprintf("trace_ring_entries{part=%q}", part)]
	}
	return f, nil
}
