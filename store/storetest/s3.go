package storetest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	out             *bytes.Buffer
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
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = l.Addr().String()
	g.Endpoint = "http://" + g.addr
	_ = l.Close() // it was only asked for a free port
	g.Start(t)
	t.Cleanup(g.Kill)
	return g
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
	g.out = &bytes.Buffer{}
	g.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), versitygw(t), "--port", g.addr, "posix", g.dir)
	g.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3Access, "ROOT_SECRET_KEY="+s3Secret)
	g.cmd.Stdout, g.cmd.Stderr = g.out, g.out
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for range 600 {
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Endpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(ask); err == nil {
			_ = answer.Body.Close()
			return
		}
		time.Sleep(50 * time.Millisecond) // until it listens
	}
	g.Kill()
	t.Fatalf("versitygw does not answer: %s", g.out)
}

// Kill ends the server as a crash would.
func (g *S3) Kill() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
		g.cmd = nil
	}
}

// Config is the configuration of a prefix of its own.
func (g *S3) Config() bucket.Config {
	cfg := bucket.DefaultConfig()
	cfg.URL = fmt.Sprintf("s3://%s/test/%d", s3Bucket, g.serial.Add(1))
	cfg.Endpoint, cfg.CredentialsFile = g.Endpoint, g.keys
	cfg.Timeout = 5 * time.Second
	return cfg
}

// Path is the file in which the server keeps an object.
func (g *S3) Path(cfg bucket.Config, key string) string {
	return filepath.Join(g.dir, filepath.FromSlash(cfg.URL[len("s3://"):]), filepath.FromSlash(key))
}
