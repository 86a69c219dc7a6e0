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
	"sync"
	"syscall"
	"time"

	"allium/protocols/status"
)

// killAfter is how long a process may take to drain before it is killed: the
// longest drain deadline, the second after it, and some for the machine.
const killAfter = 10 * time.Second

// startProcess runs a node as a process of its own and waits until it says
// ready. stop sends SIGTERM and waits for the exit.
func startProcess(ctx context.Context, binary, home string, seed []string) (stop func(context.Context) error, err error) {
	args := []string{"--home", home, "run", "--profile", "testnet"}
	for _, s := range seed {
		args = append(args, "--bootstrap", s)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...) // it ends by stop, with a drain
	tail := &tailWriter{}
	cmd.Stderr = tail
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we drain them
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
	stop = func(ctx context.Context) error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		kill := time.AfterFunc(killAfter, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		waiting.Wait()
		return ended
	}
	select {
	case <-ready:
		return stop, nil
	case <-done:
		return nil, errors.Join(status.Errorf(status.Internal, "the process ended before it was ready"), ended)
	case <-ctx.Done():
		return nil, errors.Join(notReady(ctx), stop(ctx))
	}
}

// awaitReady reads the output to its end and closes ready at the line "ready".
func awaitReady(out io.Reader, ready chan<- struct{}) {
	closed := false
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if !closed && sc.Text() == "ready" {
			close(ready)
			closed = true
		}
	}
}

// tailWriter keeps the last few KiB of what is written to it.
type tailWriter struct {
	mu  sync.Mutex
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

// Self is the program that is running, for Options.Binary.
func Self() (string, error) { return os.Executable() }
