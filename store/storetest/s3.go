package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/store/bucket/s3"
)

// S3 is a versitygw server. It serves a temporary directory as buckets, with one file for each
// object.
type S3 struct {
	Endpoint string

	addr, dir, keys string
	serial          atomic.Int64
	cmd             *exec.Cmd
	running         sync.WaitGroup // done when cmd has ended
	out             *bytes.Buffer  // output of cmd; read it only after cmd has ended
}

const (
	s3Bucket = "bucket"
	s3Access = "allium"
	s3Secret = "not-a-secret"
)

// StartS3 runs versitygw until the test ends. If versitygw is not installed, StartS3 skips the
// test, or fails it in CI.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	g := &S3{dir: t.TempDir(), keys: keyFile(t)}
	if err := os.Mkdir(filepath.Join(g.dir, s3Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Kill)
	for range 20 {
		// The server needs the same port after Kill and Start. So choose one below
		// the range from which the system gives ports to programs that ask for any.
		g.addr = fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(15_000))
		if g.start(t) {
			g.Endpoint = "http://" + g.addr
			return g
		}
	}
	t.Fatalf("versitygw does not start: %s", g.out)
	return nil
}

// keyFile writes a credentials file with the server's keys and returns its path.
func keyFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[other]\naws_access_key_id = x\n\n"+
		"[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s3Access, s3Secret)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// FakeS3 returns the configuration of a bucket on the server at endpoint, which the test runs.
func FakeS3(t testing.TB, endpoint string) s3.Config {
	t.Helper()
	cfg := s3.DefaultConfig()
	cfg.URL, cfg.Endpoint, cfg.CredentialsFile = "s3://"+s3Bucket, endpoint, keyFile(t)
	return cfg
}

// versitygw returns the path of the program, from bin/tools above the test or PATH. If it is not installed,
// versitygw skips or fails the test as StartS3 says.
func versitygw(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for above := ""; dir != above; above, dir = dir, filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", "tools", "versitygw")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("versitygw")
	if err != nil {
		testkit.Missing(t, "versitygw is not installed, so nothing speaks S3 here; run `make bin/tools/versitygw`")
	}
	return path
}

// Start starts the server again after Kill, on the same address and directory. While the port is
// in use it tries again, for at least ten seconds.
func (g *S3) Start(t testing.TB) {
	t.Helper()
	for range 100 {
		if g.start(t) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("versitygw does not start again: %s", g.out)
}

// start starts the server and waits until it answers. It returns false when the server ends
// before that, as it does when its port is in use.
func (g *S3) start(t testing.TB) bool {
	t.Helper()
	g.out = &bytes.Buffer{}
	g.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), versitygw(t), "--port", g.addr, "posix", g.dir)
	g.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3Access, "ROOT_SECRET_KEY="+s3Secret)
	g.cmd.Stdout, g.cmd.Stderr = g.out, g.out
	if err := g.cmd.Start(); err != nil {
		g.cmd = nil
		t.Fatal(err)
	}
	ended, cmd := make(chan struct{}), g.cmd
	g.running.Go(func() {
		defer close(ended)
		_ = cmd.Wait() // Kill ended it, or its output says why it ended
	})
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for range 1200 { // at least one minute
		select {
		case <-ended:
			g.cmd = nil
			return false
		case <-time.After(50 * time.Millisecond): // try again until the server listens
		}
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(ask); err == nil {
			_ = answer.Body.Close()
			if answer.Header.Get("Server") == "VERSITYGW" { // not another program on the port
				return true
			}
		}
	}
	g.Kill()
	t.Fatalf("versitygw does not answer: %s", g.out)
	return false
}

// Kill ends the server as a crash does. It does nothing when the server is not running.
func (g *S3) Kill() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		g.running.Wait()
		g.cmd = nil
	}
}

// Config returns the configuration of a prefix that no other call of Config returns.
func (g *S3) Config() s3.Config {
	cfg := s3.DefaultConfig()
	cfg.URL = fmt.Sprintf("s3://%s/test/%d", s3Bucket, g.serial.Add(1))
	cfg.Endpoint, cfg.CredentialsFile = g.Endpoint, g.keys
	cfg.Timeout = 30 * time.Second // for a busy machine
	return cfg
}

// Path returns the path of the file in which the server stores an object.
func (g *S3) Path(cfg s3.Config, key string) string {
	return filepath.Join(g.dir, filepath.FromSlash(cfg.URL[len("s3://"):]), filepath.FromSlash(key))
}
