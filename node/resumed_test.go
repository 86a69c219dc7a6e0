package node_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/files"
	"allium/protocols/b3"
)

// TestGetSaysWhatWasResumed cuts a fetch short and gets the object as a stream:
// what was here already is said with it, and is not sent again.
func TestGetSaysWhatWasResumed(t *testing.T) {
	noLeaks(t)
	const size = 8 << 20
	asker, providers, file := provided(t, 1, size, "2MB") // slow enough to be cut short
	dir := t.TempDir()
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8 + i>>16)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	many := add(t, providers[0], dir)[0].Root.String()
	if _, err := providers[0].api.Announce(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{file, many} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := asker.api.Fetch(ctx, key, func(p api.Progress) {
			if p.Bytes > size/4 {
				cancel()
			}
		})
		cancel()
		if err == nil {
			t.Fatal("the fetch came to its end before it was cancelled")
		}
		awaitNoTransfer(t, asker)
		received := metric(t, asker, `object_bytes_total{dir="in"`)
		s, err := asker.api.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		err = files.Extract(s, filepath.Join(t.TempDir(), "out"), files.ExtractOptions{}, nil)
		_ = s.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		whole := s.Size
		if s.Kind == api.Directory {
			whole = s.TreeBytes
		}
		if s.Resumed < size/4 || s.Resumed >= size || whole < size || whole > size+b3.GroupSize {
			t.Errorf("%s resumed at %d of %d", s.Kind, s.Resumed, whole)
		}
		if n := metric(t, asker, `object_bytes_total{dir="in"`) - received; n > size-s.Resumed+4*b3.GroupSize {
			t.Errorf("%d bytes came although %d of %d were here", n, s.Resumed, size)
		}

		awaitNoTransfer(t, asker)
		s, err = asker.api.Get(t.Context(), key) // all is here
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, s.Body)
		_ = s.Body.Close()
		if err != nil || n < size || s.Resumed != 0 || s.TreeBytes != 0 {
			t.Errorf("%d bytes, %+v, %v", n, s.Object, err)
		}
	}
}

// awaitNoTransfer waits until n fetches nothing, and keeps open no fetch.
func awaitNoTransfer(t *testing.T, n *running) {
	t.Helper()
	testkit.Eventually(t, "the end of all transfers",
		func() bool { return metric(t, n, `resolver_transfers{state="all"}`) == 0 })
}
