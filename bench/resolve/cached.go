// Package resolve measures answers of /resolve, and names.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
	"allium/protocols/b3"
)

// The connections over which a cached answer is requested, and the length of each run.
const (
	resolveConns = 32
	resolveFor   = 4 * time.Second
)

// Cached asks a node, and a bare handler, for the same answer, in turn.
func Cached(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	node, keys, err := startIndex(ctx, s, "resolve", 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.End()) }()
	path := "/resolve/" + keys[0]
	body, err := answerOf(ctx, node, path)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.Dir, "answer.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return nil, err
	}
	bare, err := bed.Reference(ctx, "answer", file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.End()) }()

	rate := measure.Row{What: "resolve, cached: requests", Unit: "/s"}
	ratio := measure.Row{What: "resolve, cached ÷ bare handler", Unit: "×", Target: "≥ 0.7"}
	tail := measure.Row{What: "resolve, cached: p99 ÷ bare handler", Unit: "×", Target: "≤ 1.5"}
	cpu := measure.Row{What: "resolve, cached: CPU", Unit: "µs/request"}
	bareCPU := measure.Row{What: "resolve, cached: CPU of the bare handler", Unit: "µs/request"}
	for i := range s.Rounds + 1 { // the first warms both
		hits := clients.Load{Paths: []string{path}, Conns: resolveConns, Length: resolveFor, Want: http.StatusOK}
		ours, err := clients.Pound(ctx, node, hits)
		if err != nil {
			return nil, err
		}
		theirs, err := clients.Pound(ctx, bare, hits)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			continue
		}
		rate.Values = append(rate.Values, ours.Rate)
		ratio.Values = append(ratio.Values, ours.Rate/theirs.Rate)
		tail.Values = append(tail.Values, ours.P99.Seconds()/theirs.P99.Seconds())
		cpu.Values = append(cpu.Values, bed.Micros(ours.CPU))
		bareCPU.Values = append(bareCPU.Values, bed.Micros(theirs.CPU))
	}
	return []measure.Row{ratio, tail, rate, cpu, bareCPU}, nil
}

// startIndex starts a node without limits per client that holds n objects, and returns their keys.
func startIndex(ctx context.Context, s *bed.Settings, name string, n int) (*measure.Process, []string, error) {
	home, dir := filepath.Join(s.Dir, name), filepath.Join(s.Dir, name+"-files")
	if err := bed.Unlimited(home); err != nil {
		return nil, nil, err
	}
	keys, err := tinyFiles(dir, n)
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := s.Add(ctx, home, dir); err != nil {
		return nil, nil, err
	}
	p, err := s.StartNode(ctx, home)
	return p, keys, err
}

// answerOf asks the node twice for a path and returns the second answer, which the node remembers.
func answerOf(ctx context.Context, p *measure.Process, path string) (body []byte, err error) {
	addr := strings.TrimPrefix(p.Gate, "http://")
	c, err := clients.DialFrom(ctx, nil, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(clients.Within)); err != nil {
		return nil, err
	}
	for range 2 {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr); err != nil {
			return nil, err
		}
		got, err := measure.ReadAnswer(c, make([]byte, 64<<10))
		if err != nil {
			return nil, err
		}
		if got.Code != http.StatusOK {
			return nil, fmt.Errorf("%s answered %d: %s", path, got.Code, got.Body)
		}
		body = got.Body
	}
	return body, nil
}

// tinyFiles writes n files of different content, and returns their addresses.
func tinyFiles(dir string, n int) (keys []string, err error) {
	for i := range n {
		d := filepath.Join(dir, fmt.Sprintf("%03d", i/1000))
		if i%1000 == 0 {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return nil, err
			}
		}
		content := fmt.Appendf(nil, "file %d of %s", i, dir)
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("%03d", i%1000)), content, 0o644); err != nil {
			return nil, err
		}
		keys = append(keys, b3.Sum(content).String())
	}
	return keys, nil
}
