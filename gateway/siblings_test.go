package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"allium/gateway/content"
	"allium/gateway/policy"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// countedObjects counts the bytes of manifests that are read.
type countedObjects struct {
	*fakeObjects
	read atomic.Int64
}

func (o *countedObjects) Open(ctx context.Context, root b3.Root, opt content.OpenOptions) (content.Content, error) {
	c, err := o.fakeObjects.Open(ctx, root, opt)
	if err != nil {
		return nil, err
	}
	return countedContent{c, o}, nil
}

type countedContent struct {
	content.Content
	of *countedObjects
}

func (c countedContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	data := c.Content.(*fakeContent).data
	if manifest.IsManifest(data) {
		c.of.read.Add(end - start)
	}
	return c.Content.Copy(ctx, w, start, end)
}

// TestSiblings: the manifests on the way to a file are read once, however many files are beside it, and the store and
// the denylist are asked each time.
func TestSiblings(t *testing.T) {
	t.Parallel()
	objects, denied := &countedObjects{fakeObjects: &fakeObjects{}}, atomic.Pointer[b3.Root]{}
	n := startWith(t, hooks{deps: func(d *Deps) {
		d.Objects, d.Denylist = objects, denyOne{root: &denied}
	}})
	files := map[string]string{}
	for i := range 10_000 {
		files["many/n"+strconv.Itoa(i)+".txt"] = "number " + strconv.Itoa(i)
	}
	files["many/index.html"] = "<title>many</title>"
	root := objects.tree(t, files)
	base := n.Addrs().Gateway + "/b3/" + root.String() + "/many/"
	for i := range 3 {
		for name, want := range map[string]string{
			"n17.txt": "number 17", "n9999.txt": "number 9999", "": "<title>many</title>",
		} {
			if a := do(t, "GET", base+name); a.StatusCode != http.StatusOK || a.body != want {
				t.Fatalf("%q: %s %.80q", name, a.Status, a.body)
			}
		}
		do(t, "GET", base+"none.txt").problem(t, status.NotFound)
		if read := objects.read.Swap(0); (read > 0) != (i == 0) {
			t.Errorf("round %d read %d bytes of manifests", i, read)
		}
	}

	nodes := map[b3.Root]*fakeObject{}
	for r, o := range objects.m {
		if manifest.IsManifest(o.data) {
			nodes[r] = o
		}
	}
	if len(nodes) < 3 {
		t.Fatalf("%d manifests: the directory is one", len(nodes))
	}
	onTheWay := map[status.Outcome]int{}
	for r := range nodes {
		denied.Store(&r)
		onTheWay[status.Denied] += differs(t, base, status.Denied)
		denied.Store(nil)
		objects.mu.Lock()
		delete(objects.m, r)
		objects.mu.Unlock()
		onTheWay[status.NotFound] += differs(t, base, status.NotFound)
		objects.put(nodes[r].data)
	}
	// The root, the index of the directory, and the leaf with the name.
	if onTheWay[status.Denied] != 3 || onTheWay[status.NotFound] != 3 {
		t.Errorf("of the manifests on the way, these were missed when they were denied or gone: %v", onTheWay)
	}
	if got := n.current("gateway.directories"); got < 100_000 || got > 16<<20 {
		t.Errorf("%d bytes are kept", got)
	}
}

// differs returns 1 if a file is refused with want, and 0 if it is served.
func differs(t *testing.T, base string, want status.Outcome) int {
	t.Helper()
	a := do(t, "GET", base+"n17.txt")
	if a.StatusCode == http.StatusOK {
		return 0
	}
	a.problem(t, want)
	return 1
}

// denyOne denies one object.
type denyOne struct {
	policy.AllowAll
	root *atomic.Pointer[b3.Root]
}

func (d denyOne) Object(root b3.Root) error {
	if r := d.root.Load(); r != nil && *r == root {
		return status.Errorf(status.Denied, "the operator does not serve it")
	}
	return nil
}

// TestDirectoriesAreBounded: the directories that are kept take no more memory than they may. One that has no room is
// read in parts.
func TestDirectoriesAreBounded(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Content.DirectoryBytes = most })
	for i := range 40 {
		files := map[string]string{}
		for j := range []int{10, 100, 1000, 5000}[i%4] {
			files[fmt.Sprintf("%d-%d", i, j)] = "same"
		}
		root := n.objects.tree(t, files)
		for range 2 {
			if a := do(t, "GET", n.Addrs().Gateway+"/b3/"+root.String()+"/"+strconv.Itoa(i)+"-7"); a.body != "same" {
				t.Fatal(a.Status, a.body)
			}
			if kept := n.current("gateway.directories"); kept == 0 || kept > most {
				t.Fatalf("%d bytes are kept", kept)
			}
		}
	}
	// What is no directory makes no room for itself.
	before := n.current("gateway.directories")
	file := n.objects.put([]byte(strings.Repeat("x", most/2)))
	do(t, "GET", n.Addrs().Gateway+"/b3/"+file.String()+"/x").problem(t, status.NotFound)
	if after := n.current("gateway.directories"); after != before {
		t.Errorf("%d bytes are kept after a file, %d before", after, before)
	}
}
