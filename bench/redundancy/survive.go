package redundancy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/protocols/b3"
)

// A cluster that loses its nodes one after the other.
const (
	surviveNodes   = 12
	surviveObjects = 200
	surviveLeast   = 1 << 10
	surviveRate    = 4 << 20          // store.repair_rate, bytes a second
	surviveGrace   = 10 * time.Second // after which a node is gone in a testnet
	surviveTicks   = 2 * time.Second  // two of them
	surviveLook    = time.Second / 2
	surviveLimit   = 5 * time.Minute  // for the targets to be met again
	surviveRead    = 30 * time.Second // for one object
	surviveReaders = 2
)

// Survive kills some nodes of a cluster at once and puts new ones in their place, again and again until none is
// left of the first, while objects are read through those that are there.
func Survive(ctx context.Context, s *bed.Settings) (rows []measure.Row, err error) {
	for _, c := range []struct {
		target []string
		lost   int // at once
	}{{[]string{"--rf", "3"}, 2}, {[]string{"--ec", "6+3"}, 3}} {
		got, err := survive(ctx, s, c.target, c.lost)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.target, err)
		}
		what := fmt.Sprintf("%s, %d of %d nodes lost at once: ", strings.Join(c.target, " "), c.lost, surviveNodes)
		rows = append(rows,
			measure.Row{What: what + "reads", Unit: "", Values: []float64{float64(got.reads)}},
			measure.Single(what+"of these without the object", "", "0", float64(got.failed)),
			measure.Row{What: what + "targets met again after", Unit: "s", Values: got.restored},
			measure.Row{What: what + "÷ (1.5 × busiest node + 2 ticks)", Unit: "×", Target: "≤ 1", Values: got.allowed})
	}
	return rows, nil
}

// survived holds the measurements of a cluster whose nodes were all replaced.
type survived struct {
	reads, failed int64
	restored      []float64 // seconds after the loss was detected, one of each loss
	allowed       []float64 // the same as a part of what the bytes of the busiest node take
}

// kept is an object that is to survive.
type kept struct {
	key  string
	size int64
}

func survive(ctx context.Context, s *bed.Settings, target []string, lost int) (got survived, err error) {
	c, err := startCluster(ctx, s, "survive", bed.AsTestnet, repairRate(surviveRate), surviveNodes)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	objects, err := c.fill(ctx, target)
	if err != nil {
		return got, err
	}
	if err := c.restored(ctx); err != nil {
		return got, err
	}
	readers := &survivors{objects: objects}
	readers.members.Store(&c.members)
	reading, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	for range surviveReaders {
		running.Go(func() { readers.run(reading) })
	}
	for first := surviveNodes; first > 0 && err == nil; first -= lost {
		var took, allowed float64
		took, allowed, err = c.lose(ctx, lost, readers)
		got.restored, got.allowed = append(got.restored, took), append(got.allowed, took/allowed)
	}
	stop()
	running.Wait()
	got.reads, got.failed = readers.reads.Load(), readers.failed.Load()
	if why := readers.why.Load(); why != nil {
		fmt.Fprintf(os.Stderr, "a read failed: %v\n", *why)
	}
	return got, err
}

// fill adds objects of all sizes with a target, each on another node.
func (c *cluster) fill(ctx context.Context, target []string) ([]kept, error) {
	objects := make([]kept, surviveObjects)
	most := float64(c.s.Size / 16) // 64 MiB
	for i := range objects {
		part := float64(i) / float64(surviveObjects-1)
		size := int64(surviveLeast * math.Pow(most/surviveLeast, part))
		key, err := c.add(ctx, c.members[i%len(c.members)], size, target...)
		if err != nil {
			return nil, err
		}
		objects[i] = kept{key, size}
	}
	return objects, nil
}

// lose kills the first nodes of the cluster, starts as many and waits until all targets are met. It returns how long
// that took after the grace, and how long it may take.
func (c *cluster) lose(ctx context.Context, n int, readers *survivors) (seconds, allowed float64, err error) {
	before, err := c.repairedByHome(ctx)
	if err != nil {
		return 0, 0, err
	}
	left := c.members[n:]
	c.seed = left[0].Addr
	readers.members.Store(&left)
	begun := time.Now()
	if err := c.kill(c.members[:n:n]); err != nil {
		return 0, 0, err
	}
	if err := c.startAtOnce(ctx, n); err != nil {
		return 0, 0, err
	}
	time.Sleep(surviveGrace - time.Since(begun)) // it is detected
	detected := time.Now()
	if err := c.restored(ctx); err != nil {
		return 0, 0, err
	}
	took := time.Since(detected)
	after, err := c.repairedByHome(ctx)
	if err != nil {
		return 0, 0, err
	}
	busiest := 0.0
	for home, bytes := range after {
		busiest = max(busiest, bytes-before[home])
	}
	members := c.members
	readers.members.Store(&members)
	return took.Seconds(), 1.5*busiest/surviveRate + surviveTicks.Seconds(), nil
}

// restored waits until each node knows that all its objects have their copies.
func (c *cluster) restored(ctx context.Context) error {
	for begun := time.Now(); ; time.Sleep(surviveLook) {
		atRisk, lost, checking := 0, 0, 0
		for _, m := range c.members {
			d, err := m.api.Durability(ctx)
			if err != nil {
				return err
			}
			atRisk, lost, checking = atRisk+d.AtRisk, lost+d.Lost, checking+d.Checking
		}
		switch {
		case atRisk+lost+checking == 0:
			return nil
		case time.Since(begun) > surviveLimit:
			return fmt.Errorf("after %s the nodes see %d objects at risk, %d lost and %d checking",
				surviveLimit, atRisk, lost, checking)
		}
	}
}

// repairedByHome returns how many bytes each node has sent and received for repairs, by its home.
func (c *cluster) repairedByHome(ctx context.Context) (map[string]float64, error) {
	repaired := map[string]float64{}
	for _, m := range c.members {
		bytes, err := m.repairedBytes(ctx)
		if err != nil {
			return nil, err
		}
		repaired[m.home] = bytes
	}
	return repaired, nil
}

// survivors read objects through the members that are there.
type survivors struct {
	objects       []kept
	members       atomic.Pointer[[]*member]
	reads, failed atomic.Int64
	why           atomic.Pointer[error] // of the latest read that failed
}

// run reads one object after the other until ctx ends. A read through a node that is killed meanwhile does not count.
func (r *survivors) run(ctx context.Context) {
	for ctx.Err() == nil {
		members := *r.members.Load()
		m, o := members[rand.IntN(len(members))], r.objects[rand.IntN(len(r.objects))]
		err := m.readWhole(ctx, o)
		if ctx.Err() != nil || err != nil && !slices.Contains(*r.members.Load(), m) {
			continue
		}
		r.reads.Add(1)
		if err != nil {
			r.failed.Add(1)
			r.why.Store(&err)
		}
	}
}

// readWhole reads an object, which the node proves.
func (m *member) readWhole(ctx context.Context, o kept) error {
	ctx, cancel := context.WithTimeout(ctx, surviveRead)
	defer cancel()
	return m.read(ctx, o.key, b3.Range{End: -1}, o.size)
}
