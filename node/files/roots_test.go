//go:build linux || darwin

package files

import (
	"archive/tar"
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/node/files/addcache"
	"allium/node/files/archive"
	"allium/protocols/b3"
)

// rootReporter is a node that answers an add with invented addresses, so that a
// test sees where an address comes from.
type rootReporter struct {
	api.Store
	silent bool                // like a node of a version that reports no addresses
	early  bool                // reports a file before its bytes have arrived
	files  int                 // files whose bytes arrived
	read   func(h *tar.Header) // called when the header of a file has arrived; may be nil
}

func invented(file int) b3.Root { return b3.Sum([]byte(strconv.Itoa(file))) }

func (n *rootReporter) Add(
	_ context.Context, r io.Reader, o api.AddOptions, _ api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				yield(api.Added{}, err)
				return
			}
			if h.Typeflag != tar.TypeReg || h.PAXRecords[archive.RootRecord] != "" {
				continue
			}
			if n.read != nil {
				n.read(h)
			}
			if !n.silent && n.early {
				o.Roots([]b3.Root{invented(n.files)})
			}
			if _, err := io.Copy(io.Discard, tr); err != nil {
				yield(api.Added{}, err)
				return
			}
			if !n.silent && !n.early {
				o.Roots([]b3.Root{invented(n.files)})
			}
			n.files++
		}
		yield(api.Added{}, nil)
	}
}

func (n *rootReporter) Keep(_ context.Context, roots []b3.Root) ([]bool, error) {
	have := make([]bool, len(roots))
	for i := range have {
		have[i] = true
	}
	return have, nil
}

// sendCached sends the files of dir to n.
func sendCached(t *testing.T, n *rootReporter, cache *addcache.Cache, dir string) {
	t.Helper()
	for _, err := range SendItems(t.Context(), n, CachedItems(DiskItems(dir), cache, CacheOptions{}), api.AddOptions{},
		nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// cached returns what cache knows of the file.
func cached(t *testing.T, cache *addcache.Cache, name string) b3.Root {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	stamp, _ := addcache.StampOf(info)
	return cache.Lookup([]addcache.Stamp{stamp})[0]
}

func openTestCache(t *testing.T) *addcache.Cache {
	t.Helper()
	cache, err := addcache.Open(t.TempDir(), func() time.Time { return time.Now().Add(time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	return cache
}

func numberedFiles(t *testing.T, n int) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	for i := range n {
		name := filepath.Join(dir, strconv.Itoa(100+i))
		if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	return dir, files
}

// TestForeignNode: a node that is not the user's own may report false addresses, so
// an add to it leaves the cache as it is.
func TestForeignNode(t *testing.T) {
	cache := openTestCache(t)
	dir, files := numberedFiles(t, 3)
	items := CachedItems(DiskItems(dir), cache, CacheOptions{ReadOnly: true})
	for _, err := range SendItems(t.Context(), &rootReporter{}, items, api.AddOptions{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		if root := cached(t, cache, name); !root.IsZero() {
			t.Errorf("the cache has %s for %s, which only the node said", root, name)
		}
	}
}

// TestNodeHashes: the sender of files hashes none of them. The cache gets the
// addresses that the node reports, and an unchanged file is then sent by address.
func TestNodeHashes(t *testing.T) {
	for _, early := range []bool{false, true} {
		cache := openTestCache(t)
		dir, files := numberedFiles(t, 300)
		sendCached(t, &rootReporter{early: early}, cache, dir)
		for i, f := range files {
			if got := cached(t, cache, f); got != invented(i) {
				t.Fatalf("early %v: %s has %s in the cache, want what the node reported", early, f, got)
			}
		}
		if err := os.WriteFile(files[7], []byte("changed"), 0o644); err != nil {
			t.Fatal(err)
		}
		again := &rootReporter{early: early}
		sendCached(t, again, cache, dir)
		if again.files != 1 {
			t.Errorf("early %v: %d files were sent again, want the changed one", early, again.files)
		}
		if got := cached(t, cache, files[7]); got != invented(0) {
			t.Errorf("early %v: the changed file has %s in the cache", early, got)
		}
	}
}

// TestSilentNode: an add works with a node that reports no addresses; the cache
// learns nothing.
func TestSilentNode(t *testing.T) {
	cache := openTestCache(t)
	dir, files := numberedFiles(t, 10)
	sendCached(t, &rootReporter{silent: true}, cache, dir)
	for _, f := range files {
		if got := cached(t, cache, f); !got.IsZero() {
			t.Errorf("%s has %s in the cache", f, got)
		}
	}
}

// TestChangedWhileSent: a file that changes while it is sent is not cached, and
// the files after it get their own addresses.
func TestChangedWhileSent(t *testing.T) {
	cache := openTestCache(t)
	dir, files := numberedFiles(t, 10)
	past := time.Now().Add(-time.Hour) // so that the change moves the time, however soon it comes
	if err := os.Chtimes(files[3], past, past); err != nil {
		t.Fatal(err)
	}
	n := &rootReporter{}
	n.read = func(*tar.Header) {
		if n.files != 3 {
			return
		}
		f, err := os.OpenFile(files[3], os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = f.WriteString("x")
		if err != nil || f.Close() != nil {
			t.Error(err)
		}
	}
	sendCached(t, n, cache, dir)
	for i, f := range files {
		want := invented(i)
		if i == 3 {
			want = b3.Root{}
		}
		if got := cached(t, cache, f); got != want {
			t.Errorf("%d: %s is in the cache, want %s", i, got, want)
		}
	}
}

// TestSentFilesAreBounded: files wait for a slow node up to a bound. Those beyond
// it are forgotten, those before and after get their addresses.
func TestSentFilesAreBounded(t *testing.T) {
	var s sentFiles
	got := map[int]b3.Root{}
	send := func(i int) { s.add(func(r b3.Root) { got[i] = r }) }
	const extra = 10
	for i := range maxSentFiles + extra {
		send(i)
	}
	if len(s.waiting) != maxSentFiles {
		t.Errorf("%d files wait", len(s.waiting))
	}
	for i := range maxSentFiles + extra {
		s.report([]b3.Root{invented(i)})
	}
	last := maxSentFiles + extra
	send(last)
	s.report([]b3.Root{invented(last), invented(0), invented(0)}) // with addresses of files that were never sent
	if len(got) != maxSentFiles+1 || got[0] != invented(0) || got[last] != invented(last) {
		t.Errorf("%d files have addresses; the first %s, the last %s", len(got), got[0], got[last])
	}
}
