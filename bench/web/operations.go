package web

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
)

// The downloads that are hashed while operations are requested, and the requests of operations.
const (
	opsDownloads = 400
	opsObject    = 64 << 20
	opsFor       = 10 * time.Second
	opsEvery     = 50 * time.Millisecond
	opsAskers    = 2
)

// Ops measures how soon a node says that it lives, over new connections,
// with nothing else to do and while hundreds of downloads are hashed at once.
func Ops(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		fmt.Println("operations beside downloads: not measured, as it needs the program wrk")
		return nil, nil
	}
	file, home := filepath.Join(s.Dir, "ops.bin"), filepath.Join(s.Dir, "ops")
	if err := bed.RandomFile(file, opsObject); err != nil {
		return nil, err
	}
	if err := bed.Unlimited(home); err != nil {
		return nil, err
	}
	key, _, err := s.Add(ctx, home, file)
	if err != nil {
		return nil, err
	}
	node, err := s.StartNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopped := node.Stop()
		err = errors.Join(err, stopped)
	}()
	ask := func(length time.Duration) (clients.Answers, error) {
		return clients.Ask(ctx, node.Gate+"/healthz", opsAskers, false, opsEvery, length)
	}
	idle, err := ask(opsFor / 2)
	if err != nil {
		return nil, err
	}
	var wrk sync.WaitGroup
	var failed error
	load := opsFor + 4*time.Second
	wrk.Go(func() {
		_, failed = bed.Run(ctx, "wrk", "-t"+strconv.Itoa(httpThreads), "-c"+strconv.Itoa(opsDownloads),
			"-d"+load.String(), "--timeout", "60s", node.Gate+"/o/"+key)
	})
	time.Sleep(2 * time.Second) // they have begun
	busy, err := ask(opsFor)
	wrk.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	average, err := measure.LoadAverage()
	if err != nil {
		return nil, err
	}
	const what = "operations: /healthz"
	return []measure.Row{
		measure.Single(what+", idle: p99", "ms", "", idle.P99()),
		measure.Single(what+fmt.Sprintf(" beside %d downloads: p50", opsDownloads), "ms", "≤ 10", busy.P50()),
		measure.Single("operations: the same, p99", "ms", "", busy.P99()),
		measure.Single("operations: the asker woke up late by (p99)", "ms", "", measure.Millis(busy.Late, 99)),
		measure.Single("operations: failed", "", "0", float64(busy.Failed+idle.Failed)),
		measure.Single("operations: load average", "", "", average),
	}, nil
}
