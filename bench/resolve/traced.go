package resolve

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"allium/bench/bed"
	"allium/bench/measure"
)

// Traced measures what the records that `allium why` reads cost a fetch of small files: by a
// node that keeps them, and by one that was built without, in turn.
func Traced(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	bare := *s
	bare.Allium = filepath.Join(s.Dir, "allium-untraced")
	if out, err := exec.CommandContext(ctx, "go", "build", "-tags", "untraced", "-o", bare.Allium, "./cmd/allium").
		CombinedOutput(); err != nil {
		fmt.Printf("records of lookups: not measured, as the program without them cannot be built here: %s\n", out)
		return nil, nil
	}
	dir, home := filepath.Join(s.Dir, "traced"), filepath.Join(s.Dir, "tracedhome")
	if err := bed.SmallFiles(dir, s.Files); err != nil {
		return nil, err
	}
	key, _, err := s.Add(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	from, err := s.StartNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.End()) }()
	rate := measure.Row{What: "files, recorded ÷ not recorded: rate", Unit: "×", Target: "≥ 0.97"}
	cpu := measure.Row{What: "files, recorded ÷ not recorded: CPU of both", Unit: "×", Target: "≤ 1.03"}
	files := measure.Row{What: fmt.Sprintf("%d files, recorded: cold fetch", s.Files), Unit: "files/s"}
	for i := range 3*s.Rounds + 1 { // the first warms both, and the difference is small
		first, second := s, &bare
		if i%2 == 1 { // neither is always the one that comes first
			first, second = second, first
		}
		one, err := first.FetchCold(ctx, bed.OnTCP, from, key)
		if err != nil {
			return nil, err
		}
		other, err := second.FetchCold(ctx, bed.OnTCP, from, key)
		if err != nil {
			return nil, err
		}
		if first != s {
			one, other = other, one
		}
		if i == 0 {
			continue
		}
		rate.Values = append(rate.Values, other.Seconds/one.Seconds)
		cpu.Values = append(cpu.Values, one.CPU/other.CPU)
		files.Values = append(files.Values, float64(s.Files)/one.Seconds)
	}
	return []measure.Row{rate, cpu, files}, nil
}
