package node_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/files/addcache"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// openCache opens an add cache by whose clock nothing was changed just now.
func openCache(t *testing.T) *addcache.Cache {
	t.Helper()
	c, err := addcache.Open(t.TempDir(), func() time.Time { return time.Now().Add(time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func one(t *testing.T, seq iter.Seq2[api.Added, error]) api.Added {
	t.Helper()
	var all []api.Added
	for a, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if len(all) != 1 {
		t.Fatalf("%d trees were added", len(all))
	}
	return all[0]
}

// manyFiles writes n files, a hundred in a directory.
func manyFiles(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "many")
	for i := range n {
		d := filepath.Join(dir, fmt.Sprint(i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(d, fmt.Sprint(i)), []byte(strings.Repeat(fmt.Sprint(i, ";"), 10)),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestUnchangedIsNotRead: the second add of 10,000 files reads none, and one
// that changed is read alone, whether or not a node runs.
func TestUnchangedIsNotRead(t *testing.T) {
	t.Parallel()
	n := 10_000
	if testing.Short() {
		n = 1_000
	}
	dir := manyFiles(t, n)
	off, err := node.OpenOffline(t.Context(), t.TempDir(), config.Default(p2p.Testnet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := off.Close(); err != nil {
			t.Error(err)
		}
	})
	running := start(t, nil)
	for name, add := range map[string]func(files.Items) iter.Seq2[api.Added, error]{
		"offline": func(items files.Items) iter.Seq2[api.Added, error] {
			return off.AddItems(t.Context(), items, api.AddOptions{}, nil)
		},
		"node": func(items files.Items) iter.Seq2[api.Added, error] {
			return files.SendItems(t.Context(), running.api, items, api.AddOptions{}, nil)
		},
	} {
		cache := openCache(t)
		var last b3.Root
		for i, step := range []struct {
			change         func()
			hashed, reused int
			rehash         bool
		}{
			{func() {}, n, 0, false},
			{func() {}, 0, n, false},
			{func() { replace(t, filepath.Join(dir, "3", "301"), name) }, 1, n - 1, false},
			{func() {}, n, 0, true},
		} {
			step.change()
			added := one(t, add(files.CachedItems(files.DiskItems(dir), cache,
				files.CacheOptions{Rehash: step.rehash})))
			if added.Hashed != int64(step.hashed) || added.Reused != int64(step.reused) || added.Files != int64(n) {
				t.Fatalf("%s, add %d: %+v", name, i, added)
			}
			if changed := i == 0 || i == 2; changed == (added.Root == last) { // the last one reads everything
				t.Errorf("%s, add %d: %s after %s", name, i, added.Root, last)
			}
			last = added.Root
		}
	}
}

// replace puts another file of the same size and modification time in place of
// one.
func replace(t *testing.T, name, salt string) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	p := []byte(strings.Repeat(salt, int(info.Size())))[:info.Size()]
	if err := os.WriteFile(name+".new", p, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name+".new", info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// forgetful is a node that loses what it said it holds.
type forgetful struct {
	api.Store
	keeps int
}

func (f *forgetful) Keep(_ context.Context, roots []b3.Root) ([]bool, error) {
	f.keeps++
	return slices.Repeat([]bool{true}, len(roots)), nil
}

// TestLostReference: a node refuses an address that it does not hold, and is
// then sent the file; what was added before is told of once.
func TestLostReference(t *testing.T) {
	t.Parallel()
	cache := openCache(t)
	first, second := newTree(t, 30), manyFiles(t, 50)
	off, err := node.OpenOffline(t.Context(), t.TempDir(), config.Default(p2p.Testnet))
	if err != nil {
		t.Fatal(err)
	}
	var want []api.Added
	for a, err := range off.AddItems(t.Context(), files.CachedItems(files.DiskItems(first, second), cache,
		files.CacheOptions{}),
		api.AddOptions{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, a)
	}
	if err := off.Close(); err != nil {
		t.Fatal(err)
	}
	n := start(t, nil)
	for _, err := range files.SendItems(t.Context(), n.api, files.DiskItems(first), api.AddOptions{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
	f := &forgetful{Store: n.api}
	i := 0
	for a, err := range files.SendItems(t.Context(), f, files.CachedItems(files.DiskItems(first, second), cache,
		files.CacheOptions{}),
		api.AddOptions{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if a.Root != want[i].Root || a.Files != want[i].Files {
			t.Errorf("%+v, want %+v", a, want[i])
		}
		i++
	}
	if i != 2 || f.keeps == 0 {
		t.Errorf("%d trees, asked %d times", i, f.keeps)
	}
}

// TestFalseReference: what names no object that the store holds is refused.
func TestFalseReference(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	items := func(root b3.Root) files.Items {
		return func(yield func(files.Item, error) bool) { yield(files.Item{Path: "f", Root: root}, nil) }
	}
	r := strings.NewReader(tarOfReference(t, items(b3.Sum([]byte("nothing")))))
	for _, err := range n.api.Add(t.Context(), r, api.AddOptions{}, nil) {
		if status.Of(err) != status.Conflict {
			t.Errorf("%v", err)
		}
	}
}

func tarOfReference(t *testing.T, items files.Items) string {
	t.Helper()
	var b strings.Builder
	if err := files.WriteTar(&b, items); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
