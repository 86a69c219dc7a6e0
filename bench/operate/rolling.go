package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/protocols/b3"
)

// The rolling restart of some nodes under load.
const (
	rollNodes   = 5
	rollReaders = 4
	rollEvery   = 20 * time.Millisecond  // a reader reads that often
	rollAdds    = 100 * time.Millisecond // a file is added that often
	rollBetween = 3 * time.Second        // from the start of a node to the stop of the next
	rollSize    = 16 << 10
)

// rolling is the nodes, and what was stored.
type rolling struct {
	s    *bed.Settings
	apis [rollNodes]*client.Client

	mu                   sync.Mutex
	nodes                [rollNodes]*measure.Process // nil while a node is started again
	files                []rolled
	reads, again, failed int   // of reads: all, tried twice, and failed then too
	refused              int   // adds
	why                  error // of a read that failed twice
}

// rolled is a file that a node has acknowledged. When two nodes have it, it is read.
type rolled struct {
	root b3.Root
	node int
	both bool
}

// benchRolling restarts five nodes, one after the other, while files are added and read. Each file is on two nodes. Who
// reads tries once more, on another node.
func benchRolling(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	k := &rolling{s: s}
	for i := range rollNodes {
		if err := k.start(ctx, i); err != nil {
			return nil, err
		}
		if k.apis[i], err = measure.Client(k.home(i)); err != nil {
			return nil, err
		}
		defer k.apis[i].Close()
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	working.Go(func() { every(work, rollAdds, func() { k.add(ctx) }) })
	for range rollReaders {
		working.Go(func() { every(work, rollEvery, func() { k.read(ctx) }) })
	}
	time.Sleep(rollBetween)
	for i := range rollNodes {
		if err := k.restart(ctx, i); err != nil {
			return nil, err
		}
		time.Sleep(rollBetween)
	}
	stop()
	working.Wait()
	lost := 0
	for _, f := range k.files {
		if err := readTree(ctx, k.apis[f.node], f.root); err != nil {
			fmt.Printf("rolling restart: %s of node %d: %v\n", f.root, f.node, err)
			lost++
		}
	}
	for _, p := range k.nodes {
		err = errors.Join(err, p.End())
	}
	if k.why != nil {
		fmt.Printf("rolling restart: one of the reads failed: %v\n", k.why)
	}
	return []measure.Row{
		measure.Single("rolling restart: files acknowledged", "", "", float64(len(k.files))),
		measure.Single("rolling restart: of these lost", "", "0", float64(lost)),
		measure.Single("rolling restart: adds refused or cut", "", "", float64(k.refused)),
		measure.Single("rolling restart: reads", "", "", float64(k.reads)),
		measure.Single("rolling restart: reads tried once more", "%", "",
			100*float64(k.again)/float64(max(k.reads, 1))),
		measure.Single("rolling restart: reads that fail then too", "%", "< 0.1",
			100*float64(k.failed)/float64(max(k.reads, 1))),
	}, err
}

// every calls f again and again, until ctx ends.
func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

func (k *rolling) home(i int) string { return filepath.Join(k.s.Dir, fmt.Sprintf("roll%d", i)) }

// start starts a node beside those that run.
func (k *rolling) start(ctx context.Context, i int) error {
	var seeds []string
	for _, p := range k.nodes {
		if p != nil {
			seeds = append(seeds, p.Addr)
		}
	}
	p, err := k.s.StartNode(ctx, k.home(i), seeds...)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[i] = p
	return nil
}

// restart ends a node in order and starts it again. Like a load balancer that has not heard of it, clients ask it until
// it has ended.
func (k *rolling) restart(ctx context.Context, i int) error {
	if err := k.nodes[i].End(); err != nil {
		return err
	}
	k.mu.Lock()
	k.nodes[i] = nil
	k.mu.Unlock()
	return k.start(ctx, i)
}

// add adds a file on one node, and has another get it.
func (k *rolling) add(ctx context.Context) {
	at := rand.IntN(rollNodes)
	root, err := addRandom(ctx, k.apis[at], 1, rollSize, api.AddOptions{})
	k.mu.Lock()
	if err != nil {
		k.refused++
		k.mu.Unlock()
		return
	}
	k.files = append(k.files, rolled{root: root, node: at})
	n := len(k.files) - 1
	k.mu.Unlock()
	if _, err := k.apis[(at+1)%rollNodes].Fetch(ctx, root.String(), nil); err != nil {
		return // it is restarting: the file stays on one node, and is not read
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[n].both = true
}

// read reads a file through one node, and if that fails through another.
func (k *rolling) read(ctx context.Context) {
	k.mu.Lock()
	if len(k.files) == 0 {
		k.mu.Unlock()
		return
	}
	f := k.files[rand.IntN(len(k.files))]
	first := rand.IntN(rollNodes)
	nodes := []*measure.Process{k.nodes[first], k.nodes[(first+1+rand.IntN(rollNodes-1))%rollNodes]}
	k.mu.Unlock()
	if !f.both {
		return
	}
	var err error
	tries := 0
	for _, p := range nodes {
		if tries++; p == nil {
			err = errors.New("the node is away")
			continue
		}
		if err = readPage(ctx, p.Gate+"/o/"+f.root.String()); err == nil {
			break
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	if tries > 1 {
		k.again++
	}
	if err != nil {
		k.failed++
		k.why = err
	}
}

// readPage gets all of a page, or an error.
func readPage(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, clients.Within)
	defer cancel()
	code, _, err := measure.Get(ctx, http.DefaultClient, url)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("answered %d", code)
	}
	return err
}
