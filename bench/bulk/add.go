package bulk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
)

// Start measures start and idle memory.
func Start(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	start := measure.Row{What: "run: answers its API after", Unit: "ms", Target: "≤ 150"}
	idle := measure.Row{What: "run: idle RSS", Unit: "MB", Target: "≤ 70"}
	for i := range s.Rounds {
		home := filepath.Join(s.Dir, fmt.Sprintf("start%d", i))
		if err := s.MakeHome(ctx, home); err != nil {
			return nil, err
		}
		p, err := s.StartNode(ctx, home)
		if err != nil {
			return nil, err
		}
		if _, err := s.Run(ctx, home, "id"); err != nil {
			return nil, err
		}
		start.Values = append(start.Values, bed.MS(p.Ready))
		time.Sleep(bed.IdleFor)
		rss, err := p.Memory()
		if err != nil {
			return nil, err
		}
		idle.Values = append(idle.Values, bed.MB(rss))
		if _, err := p.Stop(); err != nil {
			return nil, err
		}
	}
	return []measure.Row{start, idle}, nil
}

// Add measures a durable add of the large file, with no node running.
func Add(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	file, out := s.Large(), filepath.Join(s.Dir, "out")
	if err := bed.RandomFile(file, s.Size); err != nil {
		return nil, err
	}
	var addWall, addCPU, addRSS, refCPU, ddWall []float64
	for i := range s.Rounds {
		home := filepath.Join(s.Dir, "add")
		_, add, err := s.Add(ctx, home, file)
		if err != nil {
			return nil, err
		}
		ref, err := bed.RunReference(ctx, "copy", file, out)
		if err != nil {
			return nil, err
		}
		if err := os.Remove(out); err != nil {
			return nil, err
		}
		dd, err := bed.Run(ctx, "dd", "if="+file, "of="+out, "bs=1M", "conv=fdatasync")
		if err != nil {
			return nil, err
		}
		addWall, addCPU, addRSS = append(addWall, add.Wall.Seconds()), append(addCPU, add.CPU.Seconds()),
			append(addRSS, bed.MB(add.RSS))
		refCPU, ddWall = append(refCPU, ref.CPU.Seconds()), append(ddWall, dd.Wall.Seconds())
		if err := os.Remove(out); err != nil {
			return nil, err
		}
		if i == s.Rounds-1 { // the last store is what fetch reads from
			return []measure.Row{
				{What: "add: wall", Unit: "s", Values: addWall},
				{What: "add: CPU ÷ (read + hash + write)", Unit: "×", Target: "≤ 1.4",
					Values: measure.Pairs(addCPU, refCPU)},
				{What: "add: wall ÷ dd conv=fdatasync", Unit: "×", Target: "≤ 1.25",
					Values: measure.Pairs(addWall, ddWall)},
				{What: "add: peak RSS", Unit: "MB", Target: "≤ 120", Values: addRSS},
			}, os.Rename(home, s.Provider())
		}
		if err := os.RemoveAll(home); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Files measures a directory of small files.
func Files(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	dir, home := filepath.Join(s.Dir, "small"), filepath.Join(s.Dir, "smalladd")
	if err := bed.SmallFiles(dir, s.Files); err != nil {
		return nil, err
	}
	var add, fetch []float64
	for range s.Rounds {
		if err := os.RemoveAll(home); err != nil {
			return nil, err
		}
		key, added, err := s.Add(ctx, home, dir)
		if err != nil {
			return nil, err
		}
		add = append(add, float64(s.Files)/added.Wall.Seconds())
		from, err := s.StartNode(ctx, home)
		if err != nil {
			return nil, err
		}
		got, err := s.FetchCold(ctx, bed.OnTCP, from, key)
		if err != nil {
			return nil, err
		}
		fetch = append(fetch, float64(s.Files)/got.Seconds)
		if _, err := from.Stop(); err != nil {
			return nil, err
		}
	}
	return []measure.Row{
		{What: fmt.Sprintf("%d files: add", s.Files), Unit: "files/s", Target: "≥ 6000", Values: add},
		{What: fmt.Sprintf("%d files: cold fetch", s.Files), Unit: "files/s", Target: "≥ 6000", Values: fetch},
	}, nil
}
