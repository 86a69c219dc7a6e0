package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"allium/protocols/b3"
)

// The load that fills the cache of answers, and the parts of the ring that `allium why` reads.
const (
	rememberedKeys = 100_000
	failedKeys     = 2_000 // more than the ring keeps
)

// benchResolveMemory measures what remembered answers and a full ring take. The node holds the objects
// itself, because only answers from its own store come so fast that the first is still remembered when
// the last arrives.
func benchResolveMemory(ctx context.Context, s *settings) (_ []row, err error) {
	const what = "resolve, 100,000 keys: "
	empty := row{What: what + "RSS above an empty node", Unit: "MB", Target: "≤ 128"}
	before := row{What: what + "RSS above the same node before", Unit: "MB"}
	entries := row{What: what + "remembered", Unit: "answers", Target: "100000"}
	estimate := row{What: what + "memory of these, estimated", Unit: "MB", Target: "≤ 50"}
	ring := row{What: what + "lookups in the ring", Unit: "", Target: "≤ 4096"}
	for i := range s.rounds {
		bare, err := s.emptyRSS(ctx, fmt.Sprint("resolve-empty", i))
		if err != nil {
			return nil, err
		}
		got, err := s.fillResolver(ctx, fmt.Sprint("resolve-memory", i))
		if err != nil {
			return nil, err
		}
		empty.Values = append(empty.Values, mb(got.rss-bare))
		before.Values = append(before.Values, mb(got.rss-got.idle))
		entries.Values = append(entries.Values, got.entries)
		estimate.Values = append(estimate.Values, got.bytes/1e6)
		ring.Values = append(ring.Values, got.ring)
	}
	return []row{empty, before, entries, estimate, ring}, nil
}

// emptyRSS returns the memory of a node without objects in bytes.
func (s *settings) emptyRSS(ctx context.Context, name string) (rss int64, err error) {
	home := filepath.Join(s.dir, name)
	if err := unlimited(home); err != nil {
		return 0, err
	}
	p, err := s.startNode(ctx, home)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.End()) }()
	time.Sleep(idleFor)
	return p.Memory()
}

// filled is a node whose cache of answers, and ring of lookups, are full.
type filled struct {
	idle, rss            int64 // bytes, before and after
	entries, bytes, ring float64
}

// fillResolver starts a node and asks it for more keys than it can remember.
func (s *settings) fillResolver(ctx context.Context, name string) (f filled, err error) {
	p, keys, err := s.startIndex(ctx, name, rememberedKeys)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.End()) }()
	time.Sleep(idleFor)
	if f.idle, err = p.Memory(); err != nil {
		return f, err
	}
	unknown := make([]string, failedKeys)
	for i := range unknown {
		unknown[i] = "/resolve/" + b3.Sum(fmt.Appendf(nil, "nobody has %d", i)).String()
	}
	failing := load{paths: unknown, conns: resolveConns, want: http.StatusServiceUnavailable} // no peer is known
	if _, err := pound(ctx, p, failing); err != nil {
		return f, err
	}
	paths := make([]string, len(keys))
	for i, key := range keys {
		paths[i] = "/resolve/" + key
	}
	if _, err := pound(ctx, p, load{paths: paths, conns: resolveConns, want: http.StatusOK}); err != nil {
		return f, err
	}
	again := load{paths: paths[len(paths)-failedKeys:], conns: resolveConns, want: http.StatusOK}
	if _, err := pound(ctx, p, again); err != nil { // hits
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
