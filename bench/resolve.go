package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/measure"
	"allium/protocols/b3"
)

// The connections over which a cached answer is requested, and the length of each run.
const (
	resolveConns = 32
	resolveFor   = 4 * time.Second
)

// benchCachedResolve asks a node, and a bare handler, for the same answer, in turn.
func benchCachedResolve(ctx context.Context, s *settings) (_ []row, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	node, keys, err := s.startIndex(ctx, "resolve", 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.End()) }()
	path := "/resolve/" + keys[0]
	body, err := answerOf(ctx, node, path)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, "answer.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return nil, err
	}
	bare, err := measure.Start(ctx, nil, self, "reference-answer", file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.End()) }()

	rate := row{What: "resolve, cached: requests", Unit: "/s"}
	ratio := row{What: "resolve, cached ÷ bare handler", Unit: "×", Target: "≥ 0.7"}
	tail := row{What: "resolve, cached: p99 ÷ bare handler", Unit: "×", Target: "≤ 1.5"}
	cpu := row{What: "resolve, cached: CPU", Unit: "µs/request"}
	bareCPU := row{What: "resolve, cached: CPU of the bare handler", Unit: "µs/request"}
	for i := range s.rounds + 1 { // the first warms both
		hits := load{paths: []string{path}, conns: resolveConns, length: resolveFor, want: http.StatusOK}
		ours, err := pound(ctx, node, hits)
		if err != nil {
			return nil, err
		}
		theirs, err := pound(ctx, bare, hits)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			continue
		}
		rate.Values = append(rate.Values, ours.rate)
		ratio.Values = append(ratio.Values, ours.rate/theirs.rate)
		tail.Values = append(tail.Values, ours.p99.Seconds()/theirs.p99.Seconds())
		cpu.Values = append(cpu.Values, micros(ours.cpu))
		bareCPU.Values = append(bareCPU.Values, micros(theirs.cpu))
	}
	return []row{ratio, tail, rate, cpu, bareCPU}, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// startIndex starts a node without limits per client that holds n objects, and returns their keys.
func (s *settings) startIndex(ctx context.Context, name string, n int) (*process, []string, error) {
	home, dir := filepath.Join(s.dir, name), filepath.Join(s.dir, name+"-files")
	if err := unlimited(home); err != nil {
		return nil, nil, err
	}
	keys, err := tinyFiles(dir, n)
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := s.add(ctx, home, dir); err != nil {
		return nil, nil, err
	}
	p, err := s.startNode(ctx, home)
	return p, keys, err
}

// answerOf asks the node twice for a path and returns the second answer, which the node remembers.
func answerOf(ctx context.Context, p *process, path string) (body []byte, err error) {
	addr := strings.TrimPrefix(p.Gate, "http://")
	c, err := dialFrom(ctx, nil, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(askFor)); err != nil {
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

// sameAnswer is a handler that answers everything with the JSON of a file.
func sameAnswer(file string) (http.Handler, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // the client went away
	}), nil
}
