package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a running node, or a reference server.
type process struct {
	cmd   *exec.Cmd
	addr  string        // the first it listens on
	addrs []string      // all of them
	gate  string        // URL of its gateway, if it is a node
	admin string        // URL of its admin listener, if it has one
	ready time.Duration // from its start
}

// startProcess starts a program that prints "listening on ADDR" lines, a node
// also "gateway on URL" and "admin on URL", and then "ready".
func startProcess(ctx context.Context, name string, args ...string) (*process, error) {
	return startWith(ctx, nil, name, args...)
}

// startWith is startProcess with variables for the environment, beside that of this process.
func startWith(ctx context.Context, env []string, name string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cmd.Environ(), env...)
	cmd.WaitDelay = time.Second
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if a, ok := strings.CutPrefix(sc.Text(), "listening on "); ok {
			p.addrs = append(p.addrs, a)
		}
		if a, ok := strings.CutPrefix(sc.Text(), "gateway on "); ok {
			p.gate = a
		}
		if a, ok := strings.CutPrefix(sc.Text(), "admin on "); ok {
			p.admin = a
		}
		if sc.Text() == "ready" && len(p.addrs) > 0 {
			p.addr, p.ready = p.addrs[0], time.Since(begun)
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s %v ended before it was ready: %w", name, args, cmd.Wait())
}

// Where a node or a reference server listens: on loopback, on any port.
const (
	onTCP  = "/ip4/127.0.0.1/tcp/0"
	onQUIC = "/ip4/127.0.0.1/udp/0/quic-v1"
)

// startNode starts a node on loopback TCP alone.
func (s *settings) startNode(ctx context.Context, home string, bootstrap ...string) (*process, error) {
	return s.startNodeOn(ctx, onTCP, home, bootstrap...)
}

func (s *settings) startNodeOn(ctx context.Context, listen, home string, bootstrap ...string) (*process, error) {
	return s.startNodeAs(ctx, asTestnet, listen, home, bootstrap...)
}

// The flags of a node of a testnet, and of one as most people run it.
var (
	asTestnet = []string{"--profile", "testnet"}
	asUsual   = []string{"--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
)

func (s *settings) startNodeAs(
	ctx context.Context, flags []string, listen, home string, bootstrap ...string,
) (*process, error) {
	args := append([]string{"--home", home, "--log-level", "error", "run", "--listen", listen}, flags...)
	for _, b := range bootstrap {
		args = append(args, "--bootstrap", b)
	}
	return startWith(ctx, s.env, s.allium, args...)
}

// makeHome makes a home where none is: only `init` and `run` make one.
func (s *settings) makeHome(ctx context.Context, home string) error {
	if _, err := os.Stat(home); err == nil {
		return nil
	}
	_, err := run(ctx, s.allium, "--home", home, "init")
	return err
}

// add adds a file or directory to the store of home, which it makes if there is none. It returns the address, and what
// the add took.
func (s *settings) add(ctx context.Context, home, path string) (key string, took usage, err error) {
	if err := s.makeHome(ctx, home); err != nil {
		return "", took, err
	}
	took, err = run(ctx, s.allium, "--home", home, "add", "-q", path)
	return strings.TrimSpace(took.out), took, err
}

// stop ends the process and returns its peak memory in bytes.
func (p *process) stop() (rss int64, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	err = p.cmd.Wait()
	if r, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		rss = r.Maxrss << 10
	}
	return rss, err
}

// memory returns the resident memory of the process now, in bytes.
func (p *process) memory() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			var kib int64
			_, err := fmt.Sscan(f[1], &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in /proc/%d/status", p.cmd.Process.Pid)
}
