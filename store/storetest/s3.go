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
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/store/bucket"
)

// S3 is a versitygw that serves a directory as buckets, one file for each
// object.
type S3 struct {
	Endpoint string

	addr, dir, keys string
	serial          atomic.Int64
	cmd             *exec.Cmd
	running         sync.WaitGroup // of cmd's end
	out             *bytes.Buffer  // what cmd says, to be read when it has ended
}

const (
	s3Bucket = "bucket"
	s3Access = "allium"
	s3Secret = "not-a-secret"
)

// StartS3 runs a versitygw until the test ends. Where it is not installed the
// test is skipped; with ALLIUM_CI=1 it fails.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	g := &S3{dir: t.TempDir(), keys: keyFile(t)}
	if err := os.Mkdir(filepath.Join(g.dir, s3Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Kill)
	for range 20 {
		// A port of its own for as long as the test lives, also while it does not
		// run: none of those that a system gives to who asks for any.
		g.addr = fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(15_000))
		if g.start(t) {
			g.Endpoint = "http://" + g.addr
			return g
		}
	}
	t.Fatalf("versitygw does not start: %s", g.out)
	return nil
}

// keyFile writes the server's keys.
func keyFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[other]\naws_access_key_id = x\n\n[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s3Access, s3Secret)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// FakeS3 is the configuration of a bucket on a server of the test's own.
func FakeS3(t testing.TB, endpoint string) bucket.Config {
	t.Helper()
	cfg := bucket.DefaultConfig()
	cfg.URL, cfg.Endpoint, cfg.CredentialsFile = "s3://"+s3Bucket, endpoint, keyFile(t)
	return cfg
}

// versitygw is the path of the program: of `make tools`, or on PATH.
func versitygw(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "..", "..", "bin", "tools", "versitygw")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := exec.LookPath("versitygw")
	switch {
	case err == nil:
	case os.Getenv("ALLIUM_CI") == "1":
		t.Fatal("versitygw is not installed; run `make bin/tools/versitygw`")
	default:
		t.Skip("versitygw is not installed, so nothing speaks S3 here; run `make bin/tools/versitygw`")
	}
	return path
}

// Start starts the server again after Kill, on the same address and directory.
func (g *S3) Start(t testing.TB) {
	t.Helper()
	if !g.start(t) {
		t.Fatalf("versitygw does not start again: %s", g.out)
	}
}

// start starts the server and waits until it answers. It reports whether the
// server could have its address.
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
		_ = cmd.Wait() // it was killed, or says why in out
	})
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for range 1200 { // a minute at least
		select {
		case <-ended:
			g.cmd = nil
			return false
		case <-time.After(50 * time.Millisecond): // until it listens
		}
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(ask); err == nil {
			_ = answer.Body.Close()
			if answer.Header.Get("Server") == "VERSITYGW" { // not who has the port while this one finds that out
				return true
			}
		}
	}
	g.Kill()
	t.Fatalf("versitygw does not answer: %s", g.out)
	return false
}

// Kill ends the server as a crash would.
func (g *S3) Kill() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		g.running.Wait()
		g.cmd = nil
	}
}

// Config is the configuration of a prefix of its own.
func (g *S3) Config() bucket.Config {
	cfg := bucket.DefaultConfig()
	cfg.URL = fmt.Sprintf("s3://%s/test/%d", s3Bucket, g.serial.Add(1))
	cfg.Endpoint, cfg.CredentialsFile = g.Endpoint, g.keys
	cfg.Timeout = 30 * time.Second // on a machine with other work
	return cfg
}

// Path is the file in which the server keeps an object.
func (g *S3) Path(cfg bucket.Config, key string) string {
	return filepath.Join(g.dir, filepath.FromSlash(cfg.URL[len("s3://"):]), filepath.FromSlash(key))
}
