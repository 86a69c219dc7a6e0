package scrub

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"allium/protocols/b3"
	"allium/store/meta"
)

// TestPassingLeavesThePageCache: what was cached before stays, what was not is
// dropped behind the reader, and its bytes are the file's.
func TestPassingLeavesThePageCache(t *testing.T) {
	t.Parallel()
	var wrong []int64
	tried := false
	for range 10 { // a page that somebody looks at in that moment, the kernel may keep
		at, ok := passing(t)
		if ok && len(at) == 0 {
			return
		}
		if ok {
			wrong, tried = at, true
		}
	}
	if !tried {
		t.Skip("this file system is the page cache, or keeps it")
	}
	t.Errorf("the pages at %d are cached and should not be, or the other way round", wrong)
}

// passing reads a file in passing, and returns where the page cache then has not
// what it should; false: nothing could be dropped to begin with.
func passing(t *testing.T) (wrong []int64, ok bool) {
	t.Helper()
	const groups = 3*cacheWindow + 5
	p := bytes.Repeat([]byte("passing by"), groups*b3.GroupSize/10+1)[:groups*b3.GroupSize]
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil { // what is dirty cannot be dropped
		t.Fatal(err)
	}
	const window = cacheWindow * b3.GroupSize
	dropPages(f, 0, int64(len(p)))
	noReadAhead(f)
	// The check may load the page, so it uses a group that is not checked below.
	if pageCached(f, int64(len(p)-b3.GroupSize)) {
		return nil, false
	}
	if _, err := f.ReadAt(make([]byte, window), window); err != nil { // the second window, by another reader
		t.Fatal(err)
	}
	src := newUncachedSource(meta.Pair{Data: f}, int64(len(p)))
	buf := make([]byte, b3.GroupSize)
	for g := range int64(groups) {
		if n, err := src.ReadGroup(g, buf); n != len(buf) || err != nil {
			t.Fatalf("group %d: %d, %v", g, n, err)
		}
		if !bytes.Equal(buf, p[g*b3.GroupSize:][:len(buf)]) {
			t.Fatalf("group %d is wrong", g)
		}
	}
	src.dropWindow()
	for i, want := range []bool{false, true, false, false} {
		for _, at := range []int64{0, b3.GroupSize} {
			if off := int64(i)*window + at; pageCached(f, off) != want {
				wrong = append(wrong, off)
			}
		}
	}
	return wrong, true
}
