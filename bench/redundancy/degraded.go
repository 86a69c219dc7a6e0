package redundancy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/protocols/b3"
)

// The reads of a coded object.
const (
	readBytes  = 64 << 10
	codedBytes = 6 * 4 << 20 // of the object: shards of 4 MiB
	shardReads = 48          // of each kind, fewer than a shard has
)

// Degraded measures reads of 64 KiB of a coded object at a node with one shard: while the node is there that has
// the whole object, and when it is gone, and with it the shard that it stands for, so that the bytes are made from six
// others.
func Degraded(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	var whole, rebuilt []float64
	for range min(s.Rounds, rateRounds) {
		healthy, degraded, err := degraded(ctx, s)
		if err != nil {
			return nil, err
		}
		whole, rebuilt = append(whole, healthy.Seconds()*1e3), append(rebuilt, degraded.Seconds()*1e3)
	}
	return []measure.Row{
		{What: "64 KiB of a coded object, from its peer", Unit: "ms", Values: whole},
		{What: "64 KiB of a shard that nobody has", Unit: "ms", Values: rebuilt},
		{What: "degraded read ÷ healthy one", Unit: "×", Target: "≤ 4", Values: measure.Pairs(rebuilt, whole)},
	}, nil
}

// degraded returns how long the median read takes while all nodes are there, and after the origin is gone.
func degraded(ctx context.Context, s *bed.Settings) (healthy, degraded time.Duration, err error) {
	// The grace is longer than the reads: no lost shard is repaired meanwhile.
	c, err := startCluster(ctx, s, "degraded", bed.AsTestnet, "[durability]\ngrace = \"15m\"\n", codedNodes)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	origin := c.members[0]
	var keys [2]string // the first read fetches more of an object than it returns
	for i := range keys {
		if keys[i], err = c.add(ctx, origin, codedBytes, "--ec", "6+3"); err != nil {
			return 0, 0, err
		}
	}
	reader := c.members[1]
	if healthy, err = reader.medianRead(ctx, keys[0]); err != nil {
		return 0, 0, err
	}
	if err := c.kill([]*member{origin}); err != nil {
		return 0, 0, err
	}
	before, err := c.rebuilt(ctx)
	if err != nil {
		return 0, 0, err
	}
	if degraded, err = reader.medianRead(ctx, keys[1]); err != nil {
		return 0, 0, err
	}
	after, err := c.rebuilt(ctx)
	if n := after - before; err == nil && n < shardReads/2 { // while one is read, the next one may be made
		err = fmt.Errorf("for %d reads of a shard that nobody has, %.0f parts were rebuilt", shardReads, n)
	}
	return healthy, degraded, err
}

// rebuilt returns how many parts of shards the nodes have made from others.
func (c *cluster) rebuilt(ctx context.Context) (n float64, err error) {
	for _, m := range c.members {
		counters, err := m.Counters(ctx)
		if err != nil {
			return 0, err
		}
		n += counters[`coding_parts_total{source="rebuilt"}`]
	}
	return n, nil
}

// medianRead returns how long the median of reads of the first shard of an object takes. No byte is read twice.
func (m *member) medianRead(ctx context.Context, key string) (time.Duration, error) {
	took := make([]time.Duration, shardReads)
	for i := range took {
		r := b3.Range{Start: int64(i) * readBytes, End: int64(i+1) * readBytes}
		begun := time.Now()
		if err := m.read(ctx, key, r, readBytes); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return took[shardReads/2], nil
}
