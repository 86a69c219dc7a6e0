package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// idleFor is how long a node is left alone before its memory is read.
const idleFor = 5 * time.Second

// benchStart measures start and idle memory.
func benchStart(ctx context.Context, s *settings) ([]row, error) {
	start := row{what: "run: answers its API after", unit: "ms", target: "≤ 150"}
	idle := row{what: "run: idle RSS", unit: "MB", target: "≤ 70"}
	for i := range s.rounds {
		home := filepath.Join(s.dir, fmt.Sprintf("start%d", i))
		if _, err := run(ctx, s.allium, "--home", home, "init", "--profile", "testnet"); err != nil {
			return nil, err
		}
		p, err := s.startNode(ctx, home)
		if err != nil {
			return nil, err
		}
		if _, err := run(ctx, s.allium, "--home", home, "id"); err != nil {
			return nil, err
		}
		start.values = append(start.values, ms(p.ready))
		time.Sleep(idleFor)
		rss, err := p.memory()
		if err != nil {
			return nil, err
		}
		idle.values = append(idle.values, mb(rss))
		if _, err := p.stop(); err != nil {
			return nil, err
		}
	}
	return []row{start, idle}, nil
}

// benchAdd measures a durable add of the large file, with no node running.
func benchAdd(ctx context.Context, s *settings) ([]row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, out := s.large(), filepath.Join(s.dir, "out")
	if err := randomFile(file, s.size); err != nil {
		return nil, err
	}
	var addWall, addCPU, addRSS, refCPU, ddWall []float64
	for i := range s.rounds {
		home := filepath.Join(s.dir, "add")
		add, err := run(ctx, s.allium, "--home", home, "add", "-q", file)
		if err != nil {
			return nil, err
		}
		ref, err := run(ctx, self, "reference-copy", file, out)
		if err != nil {
			return nil, err
		}
		if err := os.Remove(out); err != nil {
			return nil, err
		}
		dd, err := run(ctx, "dd", "if="+file, "of="+out, "bs=1M", "conv=fdatasync")
		if err != nil {
			return nil, err
		}
		addWall, addCPU, addRSS = append(addWall, add.wall.Seconds()), append(addCPU, add.cpu.Seconds()), append(addRSS, mb(add.rss))
		refCPU, ddWall = append(refCPU, ref.cpu.Seconds()), append(ddWall, dd.wall.Seconds())
		if err := os.Remove(out); err != nil {
			return nil, err
		}
		if i == s.rounds-1 { // the last store is what fetch reads from
			return []row{
				{what: "add: wall", unit: "s", values: addWall},
				{what: "add: CPU ÷ (read + hash + write)", unit: "×", target: "≤ 1.4", values: pairs(addCPU, refCPU)},
				{what: "add: wall ÷ dd conv=fdatasync", unit: "×", target: "≤ 1.25", values: pairs(addWall, ddWall)},
				{what: "add: peak RSS", unit: "MB", target: "≤ 120", values: addRSS},
			}, os.Rename(home, s.provider())
		}
		if err := os.RemoveAll(home); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (s *settings) large() string    { return filepath.Join(s.dir, "large") }
func (s *settings) provider() string { return filepath.Join(s.dir, "provider") }

// benchFetch measures a cold fetch between two processes.
func benchFetch(ctx context.Context, s *settings) ([]row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, out := s.large(), filepath.Join(s.dir, "out")
	added, err := run(ctx, s.allium, "--home", s.provider(), "add", "-q", file)
	if err != nil {
		return nil, err
	}
	key := strings.TrimSpace(added.out)
	from, err := s.startNode(ctx, s.provider())
	if err != nil {
		return nil, err
	}
	pipe, err := startProcess(ctx, self, "reference-serve", file)
	if err != nil {
		return nil, err
	}
	var fetch, ref, raw, rss []float64
	for range s.rounds {
		wall, peak, err := s.fetchCold(ctx, from.addr, key)
		if err != nil {
			return nil, err
		}
		p, err := run(ctx, self, "reference-pull", pipe.addr, out)
		if err != nil {
			return nil, err
		}
		r, err := run(ctx, self, "reference-raw", pipe.addr)
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
		fetch, ref, raw, rss = append(fetch, mbps/wall), append(ref, mbps/pullSeconds), append(raw, mbps/rawSeconds), append(rss, mb(peak))
		if err := os.Remove(out); err != nil {
			return nil, err
		}
	}
	if _, err := pipe.stop(); err != nil {
		return nil, err
	}
	served, err := from.stop()
	if err != nil {
		return nil, err
	}
	return []row{
		{what: "fetch: rate", unit: "MB/s", values: fetch},
		{what: "fetch: reference pipe", unit: "MB/s", values: ref},
		{what: "fetch: raw stream", unit: "MB/s", values: raw},
		{what: "fetch ÷ reference pipe", unit: "×", target: "≥ 1.0", values: pairs(fetch, ref)},
		{what: "fetch ÷ raw stream", unit: "×", target: "≥ 0.5", values: pairs(fetch, raw)},
		{what: "fetch: peak RSS of the fetching node", unit: "MB", target: "≤ 120", values: rss},
		{what: "fetch: peak RSS of the providing node", unit: "MB", target: "≤ 150", values: []float64{mb(served)}},
	}, nil
}

// fetchCold starts a node with an empty store, fetches key and returns the
// seconds of the command and the node's peak memory.
func (s *settings) fetchCold(ctx context.Context, from, key string) (seconds float64, rss int64, err error) {
	home := filepath.Join(s.dir, "fetcher")
	if err := os.RemoveAll(home); err != nil {
		return 0, 0, err
	}
	to, err := s.startNode(ctx, home, from)
	if err != nil {
		return 0, 0, err
	}
	if _, err := run(ctx, s.allium, "--home", home, "connect", from); err != nil {
		return 0, 0, err
	}
	u, err := run(ctx, s.allium, "--home", home, "get", key, "--store-only")
	if err != nil {
		return 0, 0, err
	}
	rss, err = to.stop()
	return u.wall.Seconds(), rss, err
}

// benchFiles measures a directory of small files.
func benchFiles(ctx context.Context, s *settings) ([]row, error) {
	dir, home := filepath.Join(s.dir, "small"), filepath.Join(s.dir, "smalladd")
	if err := smallFiles(dir, s.files); err != nil {
		return nil, err
	}
	var add, fetch []float64
	for range s.rounds {
		if err := os.RemoveAll(home); err != nil {
			return nil, err
		}
		added, err := run(ctx, s.allium, "--home", home, "add", "-q", dir)
		if err != nil {
			return nil, err
		}
		add = append(add, float64(s.files)/added.wall.Seconds())
		from, err := s.startNode(ctx, home)
		if err != nil {
			return nil, err
		}
		wall, _, err := s.fetchCold(ctx, from.addr, strings.TrimSpace(added.out))
		if err != nil {
			return nil, err
		}
		fetch = append(fetch, float64(s.files)/wall)
		if _, err := from.stop(); err != nil {
			return nil, err
		}
	}
	return []row{
		{what: fmt.Sprintf("%d files: add", s.files), unit: "files/s", target: "≥ 6000", values: add},
		{what: fmt.Sprintf("%d files: cold fetch", s.files), unit: "files/s", target: "≥ 6000", values: fetch},
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
func mb(bytes int64) float64     { return float64(bytes) / 1e6 }
