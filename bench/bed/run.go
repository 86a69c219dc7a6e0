package bed

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

	"allium/bench/measure"
)

// Has reports whether there is a program of that name or path.
func Has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// Usage holds the resources that one finished process took, and its output.
type Usage struct {
	Wall, CPU time.Duration
	RSS       int64 // peak, bytes
	Written   int64 // bytes of files that it changed, each write counted; 0 on a file system in RAM
	Out       string
}

// Run runs a program to its end.
func Run(ctx context.Context, name string, args ...string) (Usage, error) {
	return RunIn(ctx, nil, name, args...)
}

// RunIn is Run with additions to the environment.
func RunIn(ctx context.Context, env []string, name string, args ...string) (Usage, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	begun := time.Now()
	err := cmd.Run()
	u := Usage{Wall: time.Since(begun), Out: out.String()}
	if err != nil {
		return u, fmt.Errorf("%s %v: %w: %s", filepath.Base(name), args, err, errs.String())
	}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.RSS, u.Written = r.Maxrss<<10, r.Oublock*512 // the kernel counts in such blocks
	}
	return u, nil
}

// Run runs a command of the program under test in a home to its end.
func (s *Settings) Run(ctx context.Context, home string, args ...string) (Usage, error) {
	return Run(ctx, s.Allium, append([]string{"--home", home}, args...)...)
}

// RunReference runs a reference program of this binary to its end.
func RunReference(ctx context.Context, name string, args ...string) (u Usage, err error) {
	self, err := os.Executable()
	if err != nil {
		return u, err
	}
	return Run(ctx, self, append([]string{"reference-" + name}, args...)...)
}

// Reference starts a reference server of this binary.
func Reference(ctx context.Context, name string, args ...string) (*measure.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return measure.Start(ctx, nil, self, append([]string{"reference-" + name}, args...)...)
}

// RandomFile writes size random bytes, so that nothing can compress them.
func RandomFile(name string, size int64) error {
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

// SmallFiles writes n different files of 4 KiB, a hundred in a directory.
func SmallFiles(dir string, n int) error {
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

// RandomBytes writes bytes that were never written before.
func RandomBytes(w io.Writer, n int64) error {
	_, err := io.CopyN(w, crand.Reader, n)
	return err
}

// StopAll ends the processes in order, up to the first that fails.
func StopAll(nodes []*measure.Process) error {
	for _, n := range nodes {
		if _, err := n.Stop(); err != nil {
			return err
		}
	}
	return nil
}
