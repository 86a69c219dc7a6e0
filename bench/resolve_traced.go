package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// benchTracedFetch measures what the records that `allium why` reads cost a fetch of small files: by a
// node that keeps them, and by one that was built without, in turn.
func benchTracedFetch(ctx context.Context, s *settings) (_ []row, err error) {
	bare := *s
	bare.allium = filepath.Join(s.dir, "allium-untraced")
	if out, err := exec.CommandContext(ctx, "go", "build", "-tags", "untraced", "-o", bare.allium, "./cmd/allium").
		CombinedOutput(); err != nil {
		fmt.Printf("records of lookups: not measured, as the program without them cannot be built here: %s\n", out)
		return nil, nil
	}
	dir, home := filepath.Join(s.dir, "traced"), filepath.Join(s.dir, "tracedhome")
	if err := smallFiles(dir, s.files); err != nil {
		return nil, err
	}
	key, _, err := s.add(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	from, err := s.startNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.End()) }()
	rate := row{What: "files, recorded ÷ not recorded: rate", Unit: "×", Target: "≥ 0.97"}
	cpu := row{What: "files, recorded ÷ not recorded: CPU of both", Unit: "×", Target: "≤ 1.03"}
	files := row{What: fmt.Sprintf("%d files, recorded: cold fetch", s.files), Unit: "files/s"}
	for i := range 3*s.rounds + 1 { // the first warms both, and the difference is small
		first, second := s, &bare
		if i%2 == 1 { // neither is always the one that comes first
			first, second = second, first
		}
		one, err := first.fetchCold(ctx, onTCP, from, key)
		if err != nil {
			return nil, err
		}
		other, err := second.fetchCold(ctx, onTCP, from, key)
		if err != nil {
			return nil, err
		}
		if first != s {
			one, other = other, one
		}
		if i == 0 {
			continue
		}
		rate.Values = append(rate.Values, other.seconds/one.seconds)
		cpu.Values = append(cpu.Values, one.cpu/other.cpu)
		files.Values = append(files.Values, float64(s.files)/one.seconds)
	}
	return []row{rate, cpu, files}, nil
}
