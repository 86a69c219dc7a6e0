package testnet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"allium/protocols/status"
)

// killAfter is the longest time that a process may take to drain before it is killed: the longest
// drain deadline, one second after it, and some time for a slow machine.
const killAfter = 10 * time.Second

// startProcess runs a node as a separate process and waits until it says ready. Stop sends SIGTERM and waits for the
// exit; kill sends SIGKILL. The process also drains when this process ends in any way, because its standard input is
// closed then.
func startProcess(ctx context.Context, binary string, at place) (*running, error) {
	args := []string{"--home", at.home, "run", "--profile", "testnet", "--end-with-stdin"}
	for _, s := range at.seeds {
		args = append(args, "--bootstrap", s)
	}
	for _, l := range at.listen {
		args = append(args, "--listen", l)
	}
	if len(at.listen) > 0 {
		args = append(args, "--gateway", at.gateway, "--admin", at.admin)
	}
	// not bound to ctx: stop ends it, with a drain
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	tail := &tailWriter{}
	cmd.Stderr = tail
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C goes to this process alone, which drains the nodes

	if _, err := cmd.StdinPipe(); err != nil { // open until Wait
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var (
		waiting sync.WaitGroup
		ended   error
		done    = make(chan struct{})
		ready   = make(chan struct{})
	)
	waiting.Go(func() {
		defer close(done)
		awaitReady(out, ready)
		if ended = cmd.Wait(); ended != nil {
			ended = fmt.Errorf("%w: %s", ended, tail)
		}
	})
	r := &running{ended: done}
	r.stop = func(context.Context) error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the process may have ended by itself
		kill := time.AfterFunc(killAfter, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		waiting.Wait()
		return ended
	}
	r.kill = func(context.Context) error {
		_ = cmd.Process.Kill() // the process may have ended by itself
		waiting.Wait()
		return nil
	}
	select {
	case <-ready:
		return r, nil
	case <-done:
		return nil, errors.Join(status.Errorf(status.Internal, "the process ended before it was ready"), ended)
	case <-ctx.Done():
		return nil, errors.Join(notReady(ctx), r.stop(ctx))
	}
}

// awaitReady reads the output to its end and closes ready at the line "ready", or "ready, except: …".
func awaitReady(out io.Reader, ready chan<- struct{}) {
	closed := false
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if !closed && strings.HasPrefix(sc.Text(), "ready") {
			close(ready)
			closed = true
		}
	}
}

// tailWriter keeps the last few KiB of what is written to it.
type tailWriter struct {
	mu  sync.Mutex // lock: leaf
	buf []byte
}

const tailBytes = 4 << 10

func (t *tailWriter) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// Self returns the path of the running program, for Options.Binary.
func Self() (string, error) { return os.Executable() }
