package manifest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"allium/protocols/b3"
)

// FuzzDecode: what decodes encodes to the same bytes, whatever else it is fed
// never panics, and the memory it takes is bounded by the size of a node.
func FuzzDecode(f *testing.F) {
	o := objects{}
	testTree(f, o)
	for _, p := range o {
		f.Add(p)
	}
	f.Add([]byte(Magic))
	f.Add([]byte(Magic + "\xa2\x00\x01\x01\x9a\xff\xff\xff\xff"))
	f.Add(hostileArray())
	f.Fuzz(func(t *testing.T, p []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := Decode(p)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > maxDecode {
			t.Fatalf("%d bytes took %d", len(p), took)
		}
		if err != nil {
			return
		}
		if again := n.encoded(t); !bytes.Equal(again, p) {
			t.Fatalf("encoded %x, from %x", again, p)
		}
		if len(n.Refs()) > len(n.Entries)+len(n.Children) {
			t.Fatal("more refs than entries")
		}
	})
}

// maxDecode is what Decode may allocate for one node (20 times MaxNode), with
// room for what the test itself does at the same time.
const maxDecode = 24 << 20

// hostileArray is the node that takes most memory per byte: as many entries as
// the decoder allows, each with a name of its own to allocate.
func hostileArray() []byte {
	p := []byte(Magic + "\xa2\x00\x01\x01\x9a\x00\x01\xff\x00")
	return append(p, bytes.Repeat([]byte("\xa1\x00\x65names"), 0x1ff00)...)
}

// encoded is the reverse of Decode, by way of the wire types.
func (n *Node) encoded(t testing.TB) []byte {
	if !n.Index {
		return rawNode(t, kindDirectory, wires(n.Entries)...)
	}
	var items []wireEntry
	for i := range n.Children {
		items = append(items, *n.Children[i].wire())
	}
	return rawNode(t, kindIndex, items...)
}

// FuzzExtract runs arbitrary steps (one a line: d path, f path, l path NUL
// target). Whatever they are, nothing outside the target changes and no link
// inside leads out.
func FuzzExtract(f *testing.F) {
	f.Add("d \nf a\nd b\nf b/c\nl b/d\x00../a\n", true)
	f.Add("d \nl a\x00..\nf a/canary", false)
	f.Add("d \nd a\nd a/b\nl a/b/up\x00../..\nl esc\x00a/b/up/../canary", true)
	f.Add("d \nf ../canary\n", false)
	f.Add("d \nf A\nf a\nl A\x00.\n", true)
	f.Add("f \nf \n", false)
	f.Add("d \nl l\x00m/../..\nl m\x00.\n", true)
	f.Fuzz(func(t *testing.T, steps string, allow bool) {
		extractInside(t, ExtractOptions{AllowCaseCollisions: allow}, func(x *Extractor) error {
			for line := range strings.SplitSeq(steps, "\n") {
				op, path, _ := strings.Cut(line, " ")
				path, target, _ := strings.Cut(path, "\x00")
				if err := (step{op, path, target}).run(x); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// FuzzExtractTree extracts a directory whose nodes are what the fuzzer says.
func FuzzExtractTree(f *testing.F) {
	o := objects{}
	up, _ := build(f, o.put, standard, []Entry{fileEntry("a", "x"), {Name: "b", Kind: Link, Target: "a"}})
	f.Add(o[up], o[up])
	sub, size := build(f, o.put, standard, []Entry{{Name: "up", Kind: Link, Target: "../../canary"}})
	dir, _ := build(f, o.put, standard, []Entry{{Name: "d", Kind: Directory, Root: sub, Size: size}, {Name: "l", Kind: Link, Target: "/etc"}})
	f.Add(o[dir], o[sub])
	f.Fuzz(func(t *testing.T, top, below []byte) {
		nodes := objects{b3.Sum(top): top, b3.Sum(below): below}
		content := func(_ context.Context, e Entry) (io.Reader, error) {
			return io.LimitReader(strings.NewReader(strings.Repeat("x", 1<<16)), e.Size), nil
		}
		extractInside(t, ExtractOptions{}, func(x *Extractor) error {
			return extract(t.Context(), x, nodes.get, content, b3.Sum(top))
		})
	})
}

// extractInside runs an extraction beside a canary, to its end or its first
// error, and fails when anything but the target has changed.
func extractInside(t *testing.T, opts ExtractOptions, run func(*Extractor) error) {
	outer := t.TempDir()
	if err := os.WriteFile(outer+"/canary", []byte("tweet"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, outer)
	x, err := Begin(outer+"/out", opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(x); err == nil && x.Commit() == nil {
		outside(t, outer+"/out")
	}
	if err := x.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(outer + "/out"); err != nil {
		t.Fatal(err)
	}
	if after := snapshot(t, outer); !maps.Equal(before, after) {
		t.Fatalf("outside the target: %q became %q", before, after)
	}
}

// outside fails when a path below target resolves to one that is not.
func outside(t *testing.T, target string) {
	for name := range snapshot(t, target) {
		real, err := filepath.EvalSymlinks(filepath.Join(target, name))
		if err == nil && real != target && !strings.HasPrefix(real, target+"/") {
			t.Fatalf("%q leads to %q", name, real)
		}
	}
}
