package manifest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// reference writes a directory as FORMAT.md says, all in memory and with the
// CBOR library writing whole nodes: what the streaming builder must equal.
func reference(t testing.TB, o objects, s split, items []wireEntry, kind uint8) Child {
	t.Helper()
	var nodes []Child
	for len(items) > 0 {
		n := 1
		for ; n < len(items); n++ {
			sum := b3.Sum([]byte(items[n-1].Name))
			if len(rawNode(t, kind, items[:n]...)) >= s.min && binary.LittleEndian.Uint32(sum[:])%s.modulus == 0 {
				break
			}
			if len(rawNode(t, kind, items[:n+1]...)) > s.max {
				break
			}
		}
		nodes = append(nodes, o.raw(t, kind, items[:n]...))
		items = items[n:]
	}
	switch len(nodes) {
	case 0:
		return o.raw(t, kind)
	case 1:
		return nodes[0]
	}
	above := make([]wireEntry, len(nodes))
	for i := range nodes {
		above[i] = *nodes[i].wire()
	}
	return reference(t, o, s, above, kindIndex)
}

func wires(entries []Entry) []wireEntry {
	w := make([]wireEntry, len(entries))
	for i := range entries {
		w[i] = *entries[i].wire()
	}
	return w
}

func TestBuilderMatchesTheReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := genEntries(120).Draw(rt, "entries")
		s := split{
			min:     rapid.IntRange(1500, 3000).Draw(rt, "min"), // an index then holds five or more
			max:     rapid.IntRange(5000, 9000).Draw(rt, "max"), // more than the largest entry
			modulus: uint32(rapid.IntRange(1, 32).Draw(rt, "modulus")),
		}
		want, got := objects{}, objects{}
		ref := reference(t, want, s, wires(entries), kindDirectory)
		root, size := build(t, got.put, s, entries)
		if root != ref.Root || size != ref.Size {
			rt.Fatalf("root %s (%d bytes), want %s (%d bytes)", root, size, ref.Root, ref.Size)
		}
		for r := range got {
			if _, ok := want[r]; !ok {
				rt.Fatalf("wrote %s, which is no node of the directory", r)
			}
		}
		// The order in which the entries were found does not matter.
		again := slices.Clone(entries)
		rand.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		sortEntries(again)
		if other, _ := build(t, objects{}.put, s, again); other != root {
			rt.Fatalf("the same entries gave %s and %s", root, other)
		}
		// And they come back.
		if back := collect(t, got.get, root); !slices.Equal(back, entries) {
			rt.Fatalf("read %v, want %v", back, entries)
		}
	})
}

// TestSplitToTheByte: the bounds count the whole object and are inclusive.
func TestSplitToTheByte(t *testing.T) {
	var entries []Entry
	for i := range 100 {
		entries = append(entries, numbered(i))
	}
	const n = 24 // where the head of the array grows too
	size := len(rawNode(t, kindDirectory, wires(entries[:n])...))
	for _, c := range []struct {
		name string
		s    split
		want int // entries in the first leaf
	}{
		{"fills max", split{min: 1 << 20, max: size, modulus: 1}, n},
		{"misses max by a byte", split{min: 1 << 20, max: size - 1, modulus: 1}, n - 1},
		{"reaches min", split{min: size, max: 1 << 20, modulus: 1}, n},
		{"misses min by a byte", split{min: size + 1, max: 1 << 20, modulus: 1}, n + 1},
	} {
		o := objects{}
		root, _ := build(t, o.put, c.s, entries)
		top, err := Decode(o[root])
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := Decode(o[top.Children[0].Root])
		if err != nil || len(leaf.Entries) != c.want {
			t.Errorf("%s: %d entries, want %d (%v)", c.name, len(leaf.Entries), c.want, err)
		}
	}
}

// TestSplitBounds holds the nodes of a large directory against the rule of
// OAP1.md §11, with names of which no hash ends a leaf as well.
func TestSplitBounds(t *testing.T) {
	for name, s := range map[string]split{"standard": standard,
		"never by content": {min: standard.min, max: MaxNode, modulus: 1 << 31}} {
		t.Run(name, func(t *testing.T) {
			o := objects{}
			root, _ := build(t, o.put, s, slices.Collect(func(yield func(Entry) bool) {
				for i := range 60_000 {
					if !yield(numbered(i)) {
						return
					}
				}
			}))
			top, err := Decode(o[root])
			if err != nil {
				t.Fatal(err)
			}
			if !top.Index || len(top.Children) < 3 {
				t.Fatalf("the directory was not split: %d children", len(top.Children))
			}
			longest := len(rawNode(t, kindDirectory,
				*new(Entry{Name: "file-00000000.dat", Root: b3.Root{1}, Size: 60_000, Executable: true}).wire())) - int(
				minNode)
			for i, c := range top.Children {
				leaf, err := Decode(o[c.Root])
				if err != nil {
					t.Fatal(err)
				}
				last := leaf.Entries[len(leaf.Entries)-1].Name
				size := len(o[c.Root])
				switch {
				case size > MaxNode:
					t.Errorf("leaf %d has %d bytes", i, size)
				case i == len(top.Children)-1, s.ends(size, last), size > MaxNode-longest:
				default:
					t.Errorf("leaf %d of %d bytes ends after %q for no reason", i, size, last)
				}
			}
		})
	}
}

func TestDeepIndex(t *testing.T) {
	o, s := objects{}, split{min: 200, max: 6000, modulus: 2}
	var entries []Entry
	for i := range 60 {
		entries = append(entries, numbered(i))
	}
	root, _ := build(t, o.put, s, entries)
	levels := 0
	for n, err := Decode(o[root]); ; n, err = Decode(o[n.Children[0].Root]) {
		if err != nil {
			t.Fatal(err)
		}
		if !n.Index {
			break
		}
		levels++
	}
	if levels < 2 {
		t.Fatalf("%d levels of index, want more", levels)
	}
	if got := collect(t, o.get, root); !slices.Equal(got, entries) {
		t.Errorf("read %d entries, want %d", len(got), len(entries))
	}
	for _, e := range entries {
		if got, err := Lookup(t.Context(), o.get, root, e.Name); err != nil || got != e {
			t.Errorf("lookup %s: %v, %v", e.Name, got, err)
		}
	}
	// A node per entry would need ever more levels.
	b := newBuilder(o.put, split{min: 0, max: 6000, modulus: 1})
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		err = b.Add(t.Context(), numbered(i))
	}
	if status.Of(err) != status.BodyCap {
		t.Errorf("endless levels: %v", err)
	}
}

// TestSmallChange counts the nodes that one changed entry rewrites in a
// directory of 40,000.
func TestSmallChange(t *testing.T) {
	const n = 40_000
	var entries []Entry
	for i := range n {
		entries = append(entries, numbered(i))
	}
	before := objects{}
	build(t, before.put, standard, entries)
	rewritten := func(changed []Entry) (fresh int) {
		put := func(_ context.Context, p []byte) (b3.Root, error) {
			r := b3.Sum(p)
			if _, ok := before[r]; !ok {
				fresh++
			}
			return r, nil
		}
		build(t, put, standard, changed)
		return fresh
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		i := rng.IntN(n)
		changed := slices.Clone(entries)
		changed[i].Root = b3.Sum([]byte("changed"))
		if got := rewritten(changed); got != 2 {
			t.Errorf("changed entry %d: %d nodes rewritten, want a leaf and the index", i, got)
		}
		e := entries[i]
		e.Name += "~"
		if got := rewritten(slices.Insert(slices.Clone(entries), i+1, e)); got > 5 {
			t.Errorf("entry added after %d: %d nodes rewritten", i, got)
		}
		if got := rewritten(slices.Delete(slices.Clone(entries), i, i+1)); got > 5 {
			t.Errorf("entry %d removed: %d nodes rewritten", i, got)
		}
	}
}

// TestHead compares the head that the builder writes by hand with the library.
func TestHead(t *testing.T) {
	for _, n := range []int{0, 1, 23, 24, 255, 256, 65535, 65536} {
		var want bytes.Buffer
		if err := encode(&want, struct {
			Kind  uint8 `cbor:"0,keyasint"`
			Items []int `cbor:"1,keyasint,omitempty"`
		}{kindIndex, make([]int, n)}); err != nil {
			t.Fatal(err)
		}
		got := append(appendHead(nil, kindIndex, n), make([]byte, n)...)
		if string(got) != Magic+want.String() {
			t.Errorf("%d entries: %.40x, want %.40x", n, got, want.Bytes())
		}
		if len(got)-n > maxHead {
			t.Errorf("%d entries: the head takes %d bytes", n, len(got)-n)
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	ok := fileEntry("m", "x")
	with := func(f func(*Entry)) Entry {
		e := fileEntry("n", "x")
		f(&e)
		return e
	}
	for want, e := range map[string]Entry{
		"occurs twice":                 ok,
		"out of order":                 fileEntry("a", "x"),
		"empty":                        fileEntry("", "x"),
		"reserved":                     fileEntry("..", "x"),
		"a slash":                      fileEntry("n/x", "x"),
		"not UTF-8":                    fileEntry("n\xff", "x"),
		"normal form C":                fileEntry("ne\u0301", "x"),
		"256 bytes":                    fileEntry("n"+strings.Repeat("x", MaxName), "x"),
		"digest is missing":            with(func(e *Entry) { e.Root = b3.Root{} }),
		"size is negative":             with(func(e *Entry) { e.Size = -1 }),
		"only a link":                  with(func(e *Entry) { e.Target = "x" }),
		"kind of the entry is unknown": with(func(e *Entry) { e.Kind = 3 }),
		"no manifest has 20":           with(func(e *Entry) { e.Kind, e.Size = Directory, 20 }),
		"no manifest has 10485":        with(func(e *Entry) { e.Kind, e.Size = Directory, MaxNode+1 }),
		"only a file":                  with(func(e *Entry) { e.Kind, e.Size, e.Executable = Directory, 21, true }),
		"has only a target":            with(func(e *Entry) { e.Kind, e.Target = Link, "x" }),
		"no target":                    {Name: "n", Kind: Link},
		"NUL":                          {Name: "n", Kind: Link, Target: "a\x00b"},
		"target is not UTF-8":          {Name: "n", Kind: Link, Target: "\xff"},
		"4097 bytes":                   {Name: "n", Kind: Link, Target: strings.Repeat("x", MaxTarget+1)},
	} {
		o := objects{}
		b := NewBuilder(o.put)
		if err := b.Add(t.Context(), ok); err != nil {
			t.Fatal(err)
		}
		err := b.Add(t.Context(), e)
		var named *EntryError
		if !errors.As(err, &named) || named.Entry != e.Name || !strings.Contains(err.Error(), want) ||
			status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", want, err)
		}
		// The builder goes on without the entry.
		root, size, err := b.Close(t.Context())
		if err != nil || size != int64(len(o[root])) || !slices.Equal(collect(t, o.get, root), []Entry{ok}) {
			t.Errorf("%s: close: %v", want, err)
		}
		if _, _, err := b.Close(t.Context()); err == nil {
			t.Error("closed twice")
		}
		if err := b.Add(t.Context(), fileEntry("z", "")); err == nil {
			t.Error("added to a closed builder")
		}
	}
}

func TestBuilderKeepsPutsError(t *testing.T) {
	full := status.Errorf(status.NoSpace, "disk full")
	b := newBuilder(func(context.Context, []byte) (b3.Root, error) { return b3.Root{}, full }, small)
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = b.Add(t.Context(), numbered(i))
	}
	if !errors.Is(err, full) {
		t.Fatalf("add: %v", err)
	}
	if _, _, err := b.Close(t.Context()); !errors.Is(err, full) {
		t.Errorf("close: %v", err)
	}
}
