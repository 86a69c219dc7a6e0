package main

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// usage holds the resources that one finished process took, and its output.
type usage struct {
	wall, cpu time.Duration
	rss       int64 // peak, bytes
	written   int64 // bytes of files that it changed, each write counted; 0 on a file system in RAM
	out       string
}

// run runs a program to its end.
func run(ctx context.Context, name string, args ...string) (usage, error) {
	return runIn(ctx, nil, name, args...)
}

// runIn is run with additions to the environment.
func runIn(ctx context.Context, env []string, name string, args ...string) (usage, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	begun := time.Now()
	err := cmd.Run()
	u := usage{wall: time.Since(begun), out: out.String()}
	if err != nil {
		return u, fmt.Errorf("%s %v: %w: %s", filepath.Base(name), args, err, errs.String())
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.rss, u.written = r.Maxrss<<10, r.Oublock*512 // the kernel counts in such blocks
	}
	return u, nil
}

// randomFile writes size random bytes, so that nothing can compress them.
func randomFile(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	src := rand.NewChaCha8([32]byte{1})
	buf := make([]byte, 1<<20)
	for left := size; left > 0; left -= int64(len(buf)) {
		buf = buf[:min(left, int64(len(buf)))]
		_, _ = src.Read(buf) // never fails
		if _, err := f.Write(buf); err != nil {
			return err
		}
	}
	return f.Close()
}

// smallFiles writes n different files of 4 KiB, a hundred in a directory.
func smallFiles(dir string, n int) error {
	src := rand.NewChaCha8([32]byte{2})
	buf := make([]byte, 4<<10)
	for i := range n {
		d := filepath.Join(dir, fmt.Sprintf("%03d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
		}
		_, _ = src.Read(buf) // never fails
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("%02d", i%100)), buf, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// randomBytes writes bytes that were never written before.
func randomBytes(w io.Writer, n int64) error {
	_, err := io.CopyN(w, crand.Reader, n)
	return err
}
