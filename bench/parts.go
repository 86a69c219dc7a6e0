package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"allium/bench/measure"
	"allium/bench/sites"
)

// idleFor is the time that a node is left alone before its memory is read.
const idleFor = 5 * time.Second

// benchStart measures start and idle memory.
func benchStart(ctx context.Context, s *settings) ([]row, error) {
	start := row{What: "run: answers its API after", Unit: "ms", Target: "≤ 150"}
	idle := row{What: "run: idle RSS", Unit: "MB", Target: "≤ 70"}
	for i := range s.rounds {
		home := filepath.Join(s.dir, fmt.Sprintf("start%d", i))
		if err := s.makeHome(ctx, home); err != nil {
			return nil, err
		}
		p, err := s.startNode(ctx, home)
		if err != nil {
			return nil, err
		}
		if _, err := run(ctx, s.allium, "--home", home, "id"); err != nil {
			return nil, err
		}
		start.Values = append(start.Values, ms(p.Ready))
		time.Sleep(idleFor)
		rss, err := p.Memory()
		if err != nil {
			return nil, err
		}
		idle.Values = append(idle.Values, mb(rss))
		if _, err := p.Stop(); err != nil {
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
		_, add, err := s.add(ctx, home, file)
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
		addWall, addCPU, addRSS = append(addWall, add.wall.Seconds()), append(addCPU, add.cpu.Seconds()),
			append(addRSS, mb(add.rss))
		refCPU, ddWall = append(refCPU, ref.cpu.Seconds()), append(ddWall, dd.wall.Seconds())
		if err := os.Remove(out); err != nil {
			return nil, err
		}
		if i == s.rounds-1 { // the last store is what fetch reads from
			return []row{
				{What: "add: wall", Unit: "s", Values: addWall},
				{What: "add: CPU ÷ (read + hash + write)", Unit: "×", Target: "≤ 1.4",
					Values: measure.Pairs(addCPU, refCPU)},
				{What: "add: wall ÷ dd conv=fdatasync", Unit: "×", Target: "≤ 1.25",
					Values: measure.Pairs(addWall, ddWall)},
				{What: "add: peak RSS", Unit: "MB", Target: "≤ 120", Values: addRSS},
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
		key, added, err := s.add(ctx, home, dir)
		if err != nil {
			return nil, err
		}
		add = append(add, float64(s.files)/added.wall.Seconds())
		from, err := s.startNode(ctx, home)
		if err != nil {
			return nil, err
		}
		got, err := s.fetchCold(ctx, onTCP, from, key)
		if err != nil {
			return nil, err
		}
		fetch = append(fetch, float64(s.files)/got.seconds)
		if _, err := from.Stop(); err != nil {
			return nil, err
		}
	}
	return []row{
		{What: fmt.Sprintf("%d files: add", s.files), Unit: "files/s", Target: "≥ 6000", Values: add},
		{What: fmt.Sprintf("%d files: cold fetch", s.files), Unit: "files/s", Target: "≥ 6000", Values: fetch},
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
func mb(bytes int64) float64     { return float64(bytes) / 1e6 }

// benchSites measures websites.
func benchSites(ctx context.Context, s *settings) ([]row, error) {
	return sites.Measure(ctx, sites.Config{Allium: s.allium, Dir: s.dir, Rounds: s.rounds})
}
