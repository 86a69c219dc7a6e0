package node_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"allium/protocols/b3"
)

// TestGetOpensOnce: a file that a peer has is opened with the resolver once, however
// small, and is asked of the peer once.
func TestGetOpensOnce(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, joining(a))
	const opens = `resolve_latency_seconds_count{type="open_`
	const requests = `object_request_latency_seconds_count{op="get",side="server"}`
	if metric(t, b, opens) != 0 {
		t.Fatal("something was opened before")
	}
	for i, size := range []int{0, 3, 100, b3.GroupSize, 3*b3.GroupSize + 5} {
		want := bytes.Repeat([]byte{byte('a' + i)}, size)
		file := filepath.Join(t.TempDir(), fmt.Sprint("file", i))
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
		root := add(t, a, file)[0].Root.String()
		awaitProvider(t, b, root)
		before, asked := metric(t, b, opens), metric(t, a, requests)
		s, err := b.api.Get(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(s.Body); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d bytes: got %d, %v", size, got.Len(), err)
		}
		if err := s.Body.Close(); err != nil {
			t.Error(err)
		}
		if n := metric(t, b, opens) - before; n != 1 {
			t.Errorf("%d bytes: the resolver was asked to open it %d times", size, n)
		}
		if n := metric(t, a, requests) - asked; size <= b3.GroupSize && n != 1 {
			t.Errorf("%d bytes: the peer was asked %d times", size, n)
		}
	}
}
