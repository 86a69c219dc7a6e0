package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
)

// The warm-up of a soak.
const (
	soakWarm    = 10      // it takes at least the first of so many parts of the time
	soakWarmest = 2       // and at most the first of so many
	soakFull    = 0.8     // of its bound: a store that evicts is between that and the bound
	soakTrees   = 8       // that are added to each node at first, see fill
	soakTree    = 8 << 10 // files of each
)

// fill adds trees of small files to each node, at most until a time. Their entries take more than the write buffers of
// the index, which Pebble doubles each time that it writes one out, from 256 KiB to 4 MiB. Mixed work takes half an
// hour for that.
func (k *soak) fill(ctx context.Context, until time.Time) error {
	for range soakTrees {
		for node := range k.nodes {
			if time.Now().After(until) {
				return nil
			}
			_, err := addRandom(ctx, k.apis[node], soakTree, 64*soakTree, api.AddOptions{NoPin: true})
			if k.count("add small files", err); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	k.indexed = true
	return nil
}

// warm fills the nodes and runs operations one after the other, for a part of the time and until each bounded part of
// each node (store, index, traces) is full, but for at most half of the time. It prints why it ended, and returns the
// operations per second and their number.
func (k *soak) warm(ctx context.Context) (rate float64, n int, err error) {
	first := time.Now()
	until := first.Add(k.s.Hold / soakWarmest)
	if err := k.fill(ctx, until); err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	var lacks []string
	for looked := begun; ; n++ {
		if n >= 12 && time.Since(looked) > time.Second {
			looked = time.Now()
			if lacks, err = k.lacking(ctx); err != nil {
				return 0, n, err
			}
			if len(lacks) == 0 && time.Since(first) > k.s.Hold/soakWarm || looked.After(until) {
				break
			}
		}
		if k.step(ctx, n); ctx.Err() != nil {
			return 0, n, ctx.Err()
		}
	}
	k.warmed = time.Since(first)
	why := fmt.Sprintf("each store evicts, each ring of traces is full, and each index took %d small files",
		soakTrees*soakTree)
	if len(lacks) > 0 {
		why = "half of the time is over; what grows below may be what still fills: " + strings.Join(lacks, ", ")
	}
	fmt.Printf("soak: the warm-up ends after %.0f s: %s\n", k.warmed.Seconds(), why)
	return float64(n) / time.Since(begun).Seconds(), n, nil
}

// lacking names the bounded parts of the nodes that are not full yet.
func (k *soak) lacking(ctx context.Context) (what []string, err error) {
	if !k.indexed {
		what = append(what, "the write buffers of the indexes")
	}
	for i, p := range k.nodes {
		now, err := p.Counters(ctx)
		if err != nil {
			return nil, err
		}
		if now["store_bytes"] < soakFull*now["store_max_bytes"] {
			what = append(what, fmt.Sprintf("the store of node %d", i))
		}
		if now[`trace_ring_evicted_total{part="ordinary"}`] == 0 {
			what = append(what, fmt.Sprintf("the ring of traces of node %d", i))
		}
	}
	return what, nil
}
