package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running node.
type process struct {
	cmd               *exec.Cmd
	addr, gate, admin string // where it listens first, and the URLs of its gateway and admin listener
}

// startNode starts a node of a testnet on loopback, and returns when it is ready.
func (s *settings) startNode(ctx context.Context, home string, seeds ...string) (*process, error) {
	args := []string{
		"--home", home, "--log-level", "error", "run", "--profile", "testnet", "--listen", "/ip4/127.0.0.1/tcp/0",
	}
	for _, seed := range seeds {
		args = append(args, "--bootstrap", seed)
	}
	p := &process{cmd: exec.CommandContext(ctx, s.allium, args...)}
	p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = append(p.cmd.Environ(), s.env...), os.Stderr, time.Second
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		for prefix, to := range map[string]*string{
			"listening on ": &p.addr, "gateway on ": &p.gate, "admin on ": &p.admin,
		} {
			if at, ok := strings.CutPrefix(sc.Text(), prefix); ok && *to == "" {
				*to = at
			}
		}
		if sc.Text() == "ready" {
			return p, nil
		}
	}
	return nil, fmt.Errorf("a node ended before it was ready: %w", p.cmd.Wait())
}

// stop ends the process in order.
func (p *process) stop() error {
	return errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.cmd.Wait())
}

// memory returns the resident memory of the process now, in bytes.
func (p *process) memory() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var all, resident int64
	_, err = fmt.Sscan(string(raw), &all, &resident)
	return resident * int64(os.Getpagesize()), err
}

// counters are the metrics of a node now, by name and labels.
func (p *process) counters(ctx context.Context) (map[string]float64, error) {
	code, page, err := get(ctx, http.DefaultClient, p.admin+"/metrics")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s/metrics answered %d", p.admin, code)
	}
	m := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if f, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[name] = f
		}
	}
	return m, err
}

// get returns the whole answer of a page.
func get(ctx context.Context, client *http.Client, url string) (code int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// startGateway starts a node with one small object and returns the URL of that.
func (s *settings) startGateway(ctx context.Context, name string) (p *process, page string, err error) {
	file, home := filepath.Join(s.dir, name+".bin"), filepath.Join(s.dir, name)
	if err := os.WriteFile(file, make([]byte, askSize), 0o600); err != nil {
		return nil, "", err
	}
	if err := exec.CommandContext(ctx, s.allium, "--home", home, "init").Run(); err != nil {
		return nil, "", err
	}
	key, err := exec.CommandContext(ctx, s.allium, "--home", home, "add", "-q", file).Output()
	if err != nil {
		return nil, "", err
	}
	if p, err = s.startNode(ctx, home); err != nil {
		return nil, "", err
	}
	return p, p.gate + "/o/" + strings.TrimSpace(string(key)), nil
}
