package measure

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Process is a running node, or a reference server.
type Process struct {
	Cmd   *exec.Cmd
	Addr  string        // the first it listens on
	Addrs []string      // all of them
	Gate  string        // URL of its gateway, if it is a node
	Admin string        // URL of its admin listener, if it has one
	Ready time.Duration // from its start
}

// Start starts a program that prints "listening on ADDR" lines, a node also "gateway on URL" and "admin on URL", and
// then "ready". env are variables for the environment, beside that of this process.
func Start(ctx context.Context, env []string, name string, args ...string) (*Process, error) {
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
	p := &Process{Cmd: cmd}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if a, ok := strings.CutPrefix(sc.Text(), "listening on "); ok {
			p.Addrs = append(p.Addrs, a)
		}
		if a, ok := strings.CutPrefix(sc.Text(), "gateway on "); ok {
			p.Gate = a
		}
		if a, ok := strings.CutPrefix(sc.Text(), "admin on "); ok {
			p.Admin = a
		}
		if sc.Text() == "ready" && len(p.Addrs) > 0 {
			p.Addr, p.Ready = p.Addrs[0], time.Since(begun)
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s %v ended before it was ready: %w", name, args, cmd.Wait())
}

// FreeAddr returns an address on loopback at which nobody listens.
func FreeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Serve starts a program that does not say when it is ready, and returns when it accepts connections at addr.
func Serve(ctx context.Context, addr, program string, args ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Cmd: cmd, Gate: "http://" + addr}
	for range 100 {
		if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr); err == nil {
			return p, c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s does not listen on %s: %w", program, addr, p.End())
}

// Stop ends the process and returns its peak memory in bytes.
func (p *Process) Stop() (rss int64, err error) {
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	err = p.Cmd.Wait()
	if r, ok := p.Cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		rss = r.Maxrss << 10
	}
	return rss, err
}

// Memory returns the resident memory of the process now, in bytes.
func (p *Process) Memory() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
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
	return 0, fmt.Errorf("no VmRSS in /proc/%d/status", p.Cmd.Process.Pid)
}

// Wakeups returns how often the threads of the process have given up a processor by themselves, to wait.
func (p *Process) Wakeups() (n int64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.Cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(raw)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				var one int64
				if _, err := fmt.Sscan(rest, &one); err != nil {
					return 0, fmt.Errorf("%s: %w", f, err)
				}
				n += one
			}
		}
	}
	return n, nil
}

// End ends the process in order.
func (p *Process) End() error {
	_, err := p.Stop()
	return err
}
