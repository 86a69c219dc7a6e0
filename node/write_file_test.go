//go:build unix

package node_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/node/config"
	"allium/node/files"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestWriteFile lets nodes write the output of a get: what is with a peer and what is here, through
// the socket. Files that are none, or cannot be written, are refused, and the body can be read then.
func TestWriteFile(t *testing.T) {
	noLeaks(t)
	const size = 9<<20 + 5
	asker, _, key := provided(t, 1, size, "0")
	for _, where := range []string{"with a peer", "here"} {
		s, err := asker.api.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if s.WriteFile == nil {
			t.Fatalf("%s: a file of %d bytes has no WriteFile", where, s.Size)
		}
		for name, f := range badOutputs(t) {
			if _, err := s.WriteFile(f, "", nil); status.Of(err) != status.BadRequest {
				t.Errorf("%s: %s: got %v, want bad_request", where, name, err)
			}
		}
		out := filepath.Join(t.TempDir(), "out")
		var last api.Progress
		if err := files.Extract(s, out, files.ExtractOptions{}, func(p api.Progress) { last = p }); err != nil {
			t.Fatal(err)
		}
		_ = s.Body.Close()
		compare(t, asker, key, out)
		if last.Bytes > size || last.TotalBytes != 0 && last.TotalBytes != size {
			t.Errorf("%s: the progress was %+v", where, last)
		}
	}

	s, err := asker.api.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	write := s.WriteFile
	s.WriteFile = func(_ *os.File, _ string, report api.ProgressFunc) (bool, error) {
		return write(badOutputs(t)["pipe"], "", report)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := files.Extract(s, out, files.ExtractOptions{}, nil); err != nil {
		t.Fatalf("the body was not read after a refusal: %v", err)
	}
	compare(t, asker, key, out)
}

// badOutputs returns files that a node must not write.
func badOutputs(t *testing.T) map[string]*os.File {
	t.Helper()
	dir := t.TempDir()
	open := func(name string, flags int, content string) *os.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _, _ = r.Close(), w.Close(), folder.Close(), null.Close() })
	return map[string]*os.File{
		"read-only": open("readonly", os.O_RDONLY, ""), "appending": open("append", os.O_WRONLY|os.O_APPEND, ""),
		"not empty": open("full", os.O_WRONLY, "x"), "pipe": w, "directory": folder, "device": null,
	}
}

// compare checks that a file has the bytes of an object.
func compare(t *testing.T, n *running, key, path string) {
	t.Helper()
	s, err := n.api.Cat(t.Context(), key, b3.Range{End: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	want, err := io.ReadAll(s.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has other bytes (%v)", path, err)
	}
}

// TestWriteFileCut cuts a get while the node writes, as Ctrl-C does: neither the output nor a
// temporary file is left, and the node gives the transfer up.
func TestWriteFileCut(t *testing.T) {
	noLeaks(t)
	asker, _, key := provided(t, 1, 64<<20, "4MB")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := asker.api.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	err = files.Extract(s, filepath.Join(dir, "out"), files.ExtractOptions{}, func(p api.Progress) {
		if p.Bytes > 0 {
			cancel()
		}
	})
	_ = s.Body.Close()
	if err == nil || ctx.Err() == nil {
		t.Fatalf("the get ended with %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
	awaitNoTransfer(t, asker)
}

// TestAmnesiaWritesNoFile checks that a node that writes no file has clients write theirs.
func TestAmnesiaWritesNoFile(t *testing.T) {
	noLeaks(t)
	n := start(t, func(c *config.Config) { c.Store.Backend = "memory" })
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	key := add(t, n, dir)[0].Root.String() + "/f"
	s, err := n.api.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	f, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := s.WriteFile(f, "", nil); status.Of(err) != status.Unsupported {
		t.Errorf("got %v, want unsupported", err)
	}
	if err := files.Extract(s, filepath.Join(dir, "out2"), files.ExtractOptions{}, nil); err != nil {
		t.Error(err)
	}
}
