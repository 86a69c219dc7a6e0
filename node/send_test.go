package node_test

import (
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/gateway/client"
	"allium/node"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// receiver is a node that takes an upload and answers with an error.
type receiver struct {
	client.Store
	read bool // to the end of the upload
	err  error
}

func (r receiver) Add(_ context.Context, tar io.Reader, _ client.AddOptions, _ client.ProgressFunc) iter.Seq2[client.Added, error] {
	return func(yield func(client.Added, error) bool) {
		if r.read {
			_, _ = io.Copy(io.Discard, tar)
		}
		yield(client.Added{}, r.err)
	}
}

// TestSendItemsNamesTheCause: an item that cannot be read is the reason, not
// the connection that is cut in its wake; a node's own error stays.
func TestSendItemsNamesTheCause(t *testing.T) {
	noLeaks(t)
	for _, tc := range []struct {
		what string
		to   receiver
		path string
		want status.Outcome
	}{
		{"unreadable item", receiver{read: true, err: status.Errorf(status.TransportDown, "cut")}, filepath.Join(t.TempDir(), "nowhere"), status.NotFound},
		{"node's error", receiver{err: status.Errorf(status.NoSpace, "full")}, tree(t, 3), status.NoSpace},
	} {
		var got error
		for _, err := range node.SendItems(t.Context(), tc.to, node.DiskItems(tc.path), client.AddOptions{}, nil) {
			got = err
		}
		if status.Of(got) != tc.want {
			t.Errorf("%s: got %v, want %s", tc.what, got, tc.want)
		}
	}
}

// TestGetRefusesAFalseSize: the size of an entry is its author's claim.
func TestGetRefusesAFalseSize(t *testing.T) {
	noLeaks(t)
	off, err := node.OpenOffline(t.Context(), t.TempDir(), config.Default(p2p.Testnet))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := off.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := func(p []byte) (root b3.Root) {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, p, 0o600); err != nil {
			t.Fatal(err)
		}
		for added, err := range off.AddItems(t.Context(), node.DiskItems(name), client.AddOptions{}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			root = added.Root
		}
		return root
	}
	for _, size := range []int64{4, 6} {
		b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return store(p), nil })
		if err := b.Add(t.Context(), manifest.Entry{Name: "a", Root: store([]byte("hello")), Size: size}); err != nil {
			t.Fatal(err)
		}
		root, _, err := b.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := off.Get(t.Context(), root.String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, s.Body)
		if status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), "a: the directory says") {
			t.Errorf("an entry that says %d bytes of 5: %v", size, err)
		}
		if err := s.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
