//go:build unix

package node_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// embeddedNode runs a node as a get of a ticket does: with a store in dir that ends with the command. Its
// API asks the provider first.
func embeddedNode(t *testing.T, dir string, provider *running) (n api.Node, stop func()) {
	t.Helper()
	cfg := config.Default(p2p.Testnet)
	cfg.Store.Dir = filepath.Join(dir, "store") // as the command line does
	cfg.Gateway.Listen, cfg.Admin.Listen, cfg.Audit.Enabled = "", "", false
	e, err := node.New(t.TempDir(), cfg, node.Deps{Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	var running sync.WaitGroup
	var ended error
	running.Go(func() { ended = e.Run(ctx, sync.OnceFunc(func() { close(ready) })) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if ended != nil {
			t.Errorf("the node stopped with %v", ended)
		}
	})
	t.Cleanup(stop)
	<-ready
	n, err = e.API().AskFirst(provider.ID().Addrs)
	if err != nil {
		t.Fatal(err)
	}
	return n, stop
}

// moving is a stream whose MoveFile notes the store's own file and whether it was moved.
type moving struct {
	*api.Stream
	file  os.FileInfo // nil: no file was offered
	moved bool
}

func getMoving(ctx context.Context, t *testing.T, n api.Node, key string) *moving {
	t.Helper()
	s, err := n.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Body.Close() })
	m := &moving{Stream: s}
	take := s.MoveFile
	if take == nil {
		t.Fatal("the stream has no MoveFile")
	}
	s.MoveFile = func(report api.ProgressFunc, move func(string) (bool, error)) (bool, error) {
		return take(report, func(path string) (bool, error) {
			info, err := os.Stat(path)
			if err != nil {
				t.Error(err)
			}
			m.file = info
			m.moved, err = move(path)
			return m.moved, err
		})
	}
	return m
}

// wantOutput checks that path has the bytes of an object. If the stream moved a file, path is that file.
func (m *moving) wantOutput(t *testing.T, path string, moved bool) {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := b3.Sum(p); got != m.Root {
		t.Errorf("the output has the address %s", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if m.moved != moved || moved != os.SameFile(info, m.file) {
		t.Errorf("moved: %t, want %t; the output is the store's own file: %t", m.moved, moved,
			os.SameFile(info, m.file))
	}
}

// TestGetMovesFile: the output of a get on an embedded node is the file in which the bytes arrived, so
// each byte is written once. Other nodes keep their files.
func TestGetMovesFile(t *testing.T) {
	noLeaks(t)
	const size = 9<<20 + 5
	asker, providers, key := provided(t, 1, size, "0")
	s, err := asker.api.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Body.Close()
	if s.MoveFile != nil {
		t.Error("a node that stays gives its files away")
	}
	dir := t.TempDir()
	n, stop := embeddedNode(t, filepath.Join(dir, ".part"), providers[0])
	m := getMoving(t.Context(), t, n, key)
	out := filepath.Join(dir, "out")
	var last api.Progress
	if err := files.Extract(m.Stream, out, files.ExtractOptions{}, func(p api.Progress) { last = p }); err != nil {
		t.Fatal(err)
	}
	m.wantOutput(t, out, true)
	if last.Bytes != size || last.TotalBytes != size {
		t.Errorf("the progress was %+v", last)
	}
	stop()
	left := 0
	err = filepath.WalkDir(filepath.Join(dir, ".part", "store", "obj"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left++
		}
		return err
	})
	if err != nil || left != 0 {
		t.Errorf("%d files are left in the store: %v", left, err)
	}
}

// TestGetMovesResumed cuts a get short, damages what arrived and goes on: the output is the same file,
// and all of it is proved.
func TestGetMovesResumed(t *testing.T) {
	noLeaks(t)
	const size = 12 << 20
	_, providers, key := provided(t, 1, size, "4MB")
	dir := t.TempDir()
	part, out := filepath.Join(dir, ".part"), filepath.Join(dir, "out")
	n, stop := embeddedNode(t, part, providers[0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := getMoving(ctx, t, n, key)
	err := files.Extract(m.Stream, out, files.ExtractOptions{}, func(p api.Progress) {
		if p.Bytes > size/4 {
			cancel()
		}
	})
	if err == nil {
		t.Fatal("the get came to its end before it was cancelled")
	}
	_ = m.Body.Close()
	stop()
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("there is %v: %v", names, err)
	}
	file, err := os.OpenFile(filepath.Join(part, "store", "part", m.Root.Hex()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	arrived := make([]byte, 2*b3.GroupSize)
	if _, err := file.ReadAt(arrived, 0); err != nil || bytes.Equal(arrived, make([]byte, len(arrived))) {
		t.Fatalf("the beginning has not arrived: %v", err)
	}
	if _, err := file.WriteAt([]byte{arrived[b3.GroupSize+9] ^ 1}, b3.GroupSize+9); err != nil {
		t.Fatal(err)
	}
	was, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}

	n, _ = embeddedNode(t, part, providers[0])
	m = getMoving(t.Context(), t, n, key)
	if m.Resumed < size/8 {
		t.Errorf("%d bytes were resumed", m.Resumed)
	}
	if err := files.Extract(m.Stream, out, files.ExtractOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	m.wantOutput(t, out, true)
	if !os.SameFile(was, m.file) {
		t.Error("the bytes were written to another file")
	}
}

// TestGetMovesNothing: an output that appeared meanwhile stays, and the next get moves the file without
// another byte of the network. An output elsewhere is a copy.
func TestGetMovesNothing(t *testing.T) {
	noLeaks(t)
	const size = 3 << 20
	_, providers, key := provided(t, 1, size, "0")
	dir, elsewhere := t.TempDir(), t.TempDir()
	out := filepath.Join(dir, "out")
	n, _ := embeddedNode(t, filepath.Join(dir, ".part"), providers[0])

	m := getMoving(t.Context(), t, n, key)
	err := files.Extract(m.Stream, out, files.ExtractOptions{}, func(p api.Progress) {
		if p.Bytes == size {
			if err := os.WriteFile(out, []byte("other"), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	_ = m.Body.Close()
	if status.Of(err) != status.Conflict {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "other" {
		t.Errorf("the other file has %d bytes: %v", len(got), err)
	}

	sent := metric(t, providers[0], `object_bytes_total{dir="out"`)
	m = getMoving(t.Context(), t, n, key)
	copied := filepath.Join(elsewhere, "copy")
	if err := files.Extract(m.Stream, copied, files.ExtractOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	m.wantOutput(t, copied, false)
	_ = m.Body.Close()

	m = getMoving(t.Context(), t, n, key)
	if err := files.Extract(m.Stream, out, files.ExtractOptions{Overwrite: true}, nil); err != nil {
		t.Fatal(err)
	}
	m.wantOutput(t, out, true)
	if again := metric(t, providers[0], `object_bytes_total{dir="out"`); again != sent {
		t.Errorf("the provider sent %v bytes again", again-sent)
	}
}
