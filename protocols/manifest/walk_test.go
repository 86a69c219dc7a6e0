package manifest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// drain reads a directory to its end and returns what it saw and the error.
func drain(ctx context.Context, get Getter, root b3.Root) (names []string, err error) {
	for e, err := range Entries(ctx, get, root) {
		if err != nil {
			return names, err
		}
		names = append(names, e.Name)
	}
	return names, nil
}

// TestHostileIndex: nodes that decode and contradict each other.
func TestHostileIndex(t *testing.T) {
	leaf := func(o objects, names ...string) Child {
		var items []wireEntry
		for _, n := range names {
			items = append(items, *new(fileEntry(n, n)).wire())
		}
		return o.raw(t, kindDirectory, items...)
	}
	index := func(o objects, children ...Child) Child {
		var items []wireEntry
		for _, c := range children {
			items = append(items, *c.wire())
		}
		return o.raw(t, kindIndex, items...)
	}
	for _, c := range []struct {
		name, want string
		root       func(o objects) Child
		lookup     string // a name that must not be found in it
	}{
		{"an overlap", "belongs to the next node",
			func(o objects) Child { return index(o, leaf(o, "a", "m"), leaf(o, "g", "z")) },
			"m"},
		{"an equal name", "belongs to the next node",
			func(o objects) Child { return index(o, leaf(o, "a", "g"), leaf(o, "g", "z")) }, "a"},
		{"an overlap two levels down", "belongs to the next node", func(o objects) Child {
			return index(o, index(o, leaf(o, "a", "b"), leaf(o, "c", "m")), leaf(o, "g"))
		}, "m"},
		{"an index that overlaps", "belongs to the next node", func(o objects) Child {
			return index(o, index(o, leaf(o, "a"), leaf(o, "h")), leaf(o, "g"))
		}, "a"},
		{"a wrong first name", `begins with "b"`, func(o objects) Child {
			c := leaf(o, "b")
			c.First = "a"
			return index(o, c, leaf(o, "g"))
		}, "b"},
		{"an empty leaf", `begins with ""`, func(o objects) Child {
			c := leaf(o)
			c.First = "a"
			return index(o, c, leaf(o, "g"))
		}, "a"},
		{"a wrong size", "its parent says", func(o objects) Child {
			c := leaf(o, "a")
			c.Size++
			return index(o, c, leaf(o, "g"))
		}, "a"},
		{"a missing leaf", "is not here", func(o objects) Child {
			c := leaf(o, "a")
			delete(o, c.Root)
			return index(o, c, leaf(o, "g"))
		}, "a"},
		{"a file for a leaf", "is not a directory", func(o objects) Child {
			c := leaf(o, "a")
			c.Root = b3.Sum([]byte("hello"))
			o[c.Root] = []byte("hello")
			return index(o, c, leaf(o, "g"))
		}, "a"},
		{"too deep", "below 4 other indexes", func(o objects) Child {
			c := leaf(o, "a")
			for range MaxDepth + 1 {
				c = index(o, c)
			}
			return c
		}, "a"},
	} {
		o := objects{}
		root := c.root(o).Root
		names, err := drain(t.Context(), o.get, root)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: entries %v, %v; want an error with %q", c.name, names, err, c.want)
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%s: names out of order came out: %v", c.name, names)
		}
		if e, err := Lookup(t.Context(), o.get, root, c.lookup); err == nil {
			t.Errorf("%s: lookup found %v", c.name, e)
		}
	}
	// The deepest directory that is allowed.
	o := objects{}
	c := leaf(o, "a")
	for range MaxDepth {
		c = index(o, c)
	}
	if names, err := drain(t.Context(), o.get, c.Root); err != nil || len(names) != 1 {
		t.Errorf("%d levels: %v, %v", MaxDepth, names, err)
	}
}

func TestEntriesStopsEarly(t *testing.T) {
	o := objects{}
	reads := 0
	get := func(ctx context.Context, r b3.Root) ([]byte, error) {
		reads++
		return o.get(ctx, r)
	}
	var entries []Entry
	for i := range 1000 {
		entries = append(entries, numbered(i))
	}
	root, _ := build(t, o.put, small, entries)
	for range Entries(t.Context(), get, root) {
		break
	}
	if reads > 3 || len(o) < 10 {
		t.Errorf("%d of %d nodes read for one entry", reads, len(o))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := drain(ctx, o.get, root); !errors.Is(err, context.Canceled) || status.Of(err) != status.Canceled {
		t.Errorf("canceled: %v", err)
	}
}

// tree builds a/b/…, a link, an executable and a large directory.
func testTree(t testing.TB, o objects) b3.Root {
	var many []Entry
	for i := range 1000 {
		many = append(many, numbered(i))
	}
	manyRoot, manySize := build(t, o.put, small, many)
	deep, deepSize := build(t, o.put, standard, []Entry{fileEntry("é.txt", "e")})
	b, bSize := build(t, o.put, standard, []Entry{{Name: "deep", Kind: Directory, Root: deep, Size: deepSize},
		fileEntry("file", "f")})
	root, _ := build(t, o.put, standard, []Entry{
		{Name: "b", Kind: Directory, Root: b, Size: bSize},
		{Name: "link", Kind: Link, Target: "b"},
		{Name: "many", Kind: Directory, Root: manyRoot, Size: manySize},
	})
	return root
}

func TestLookup(t *testing.T) {
	o := objects{}
	root := testTree(t, o)
	for path, want := range map[string]Entry{
		"b/deep/é.txt":            fileEntry("é.txt", "e"),
		"/b/deep/e\u0301.txt/":    fileEntry("é.txt", "e"), // as macOS would ask
		"b/file":                  fileEntry("file", "f"),
		"link":                    {Name: "link", Kind: Link, Target: "b"},
		"many/file-00000000.dat":  numbered(0),
		"many/file-00000999.dat":  numbered(999),
		"many/file-00000500.dat/": numbered(500),
		"":                        {Kind: Directory, Root: root, Size: int64(len(o[root]))},
		"//":                      {Kind: Directory, Root: root, Size: int64(len(o[root]))},
	} {
		if got, err := Lookup(t.Context(), o.get, root, path); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", path, got, err, want)
		}
	}
	for path, want := range map[string]status.Outcome{
		"a":                      status.NotFound,
		"c":                      status.NotFound,
		"b/file/x":               status.NotFound,
		"link/file":              status.NotFound,
		"many/file-00000999.da":  status.NotFound,
		"many/a":                 status.NotFound,
		"many/z":                 status.NotFound,
		"b/../b":                 status.BadRequest,
		"./b":                    status.BadRequest,
		"b//file":                status.BadRequest,
		"b/fi\x00le":             status.BadRequest,
		"b/\xff":                 status.BadRequest,
		strings.Repeat("x", 256): status.BadRequest,
	} {
		_, err := Lookup(t.Context(), o.get, root, path)
		var named *EntryError
		if status.Of(err) != want || !errors.As(err, &named) {
			t.Errorf("%q: %v (%v), want %v", path, err, status.Of(err), want)
		}
	}
	file := b3.Sum([]byte("plain"))
	o[file] = []byte("plain")
	for _, path := range []string{"", "x"} {
		if _, err := Lookup(t.Context(), o.get, file, path); !errors.Is(err, ErrNotManifest) {
			t.Errorf("%q in a file: %v", path, err)
		}
	}
	// A directory entry that names something else is no way round.
	bad, _ := build(t, o.put, standard, []Entry{{Name: "d", Kind: Directory, Root: file, Size: minNode}})
	if _, err := Lookup(t.Context(), o.get, bad, "d/x"); !errors.Is(err, ErrNotManifest) {
		t.Errorf("a file said to be a directory: %v", err)
	}
}

// TestLookupReadsOneNodePerLevel also shows that Lookup finds exactly what
// Entries lists.
func TestLookupReadsOneNodePerLevel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := genEntries(80).Draw(rt, "entries")
		o := objects{}
		root, _ := build(t, o.put, split{min: 1500, max: 8000, modulus: 4}, entries)
		reads := 0
		get := func(ctx context.Context, r b3.Root) ([]byte, error) {
			reads++
			return o.get(ctx, r)
		}
		for _, e := range entries {
			reads = 0
			got, err := Lookup(t.Context(), get, root, e.Name)
			if err != nil || got != e || reads > MaxDepth+1 {
				rt.Fatalf("%q: %v, %v after %d reads", e.Name, got, err, reads)
			}
		}
		other := genName().Draw(rt, "other")
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == other }) {
			if _, err := Lookup(t.Context(), get, root, other); status.Of(err) != status.NotFound {
				rt.Fatalf("%q: %v", other, err)
			}
		}
	})
}
