package bundle_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"allium/gateway/verified/bundle"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/manifest"
)

var update = flag.Bool("update", false, "write testdata/vectors.json")

// objects are those of a tree, by address.
type objects map[b3.Root][]byte

func (o objects) put(p []byte) b3.Root {
	root := b3.Sum(p)
	o[root] = bytes.Clone(p)
	return root
}

// dir makes a directory of entries, which are sorted.
func (o objects) dir(t testing.TB, entries ...manifest.Entry) manifest.Entry {
	t.Helper()
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return o.put(p), nil })
	for _, e := range entries {
		if err := b.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, size, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Entry{Kind: manifest.Directory, Root: root, Size: size}
}

func (o objects) file(name, content string) manifest.Entry {
	return manifest.Entry{Name: name, Root: o.put([]byte(content)), Size: int64(len(content))}
}

func named(e manifest.Entry, name string) manifest.Entry {
	e.Name = name
	return e
}

// tree is a directory with a little of everything.
func tree(t testing.TB) (objects, b3.Root) {
	o := objects{}
	big := make([]byte, b3.GroupSize+1)
	for i := range big {
		big[i] = byte(i ^ i>>8)
	}
	sub := o.dir(t, o.file("empty", ""), o.file("hello", "hello"),
		manifest.Entry{Name: "link", Kind: manifest.Link, Target: "hello"})
	run := o.file("run.sh", "#!/bin/sh\n")
	run.Executable = true
	top := o.dir(t, o.file("a", "hello"), o.file("big", string(big)), named(sub, "d"), named(o.dir(t), "e"),
		named(sub, "f"), run, o.file("été", "onion"))
	return o, top.Root
}

// write writes a bundle of the numbers that only has, nil for all, with files of up to bodies bytes.
func (o objects) write(t testing.TB, root b3.Root, bodies int64, only func(uint32) bool) []byte {
	t.Helper()
	var b bytes.Buffer
	w, n := bundle.NewWriter(&b, root), uint32(0)
	object := func(root b3.Root, leave bool) error {
		n++
		switch p := o[root]; {
		case only != nil && !only(n-1):
			return nil
		case leave:
			return w.LeftOut(n-1, root)
		case len(p) <= b3.GroupSize:
			return w.Small(n-1, root, p)
		}
		_, err := w.Object(n-1, root, func(to io.Writer) error { return encode(to, root, o[root]) })
		return err
	}
	get := func(_ context.Context, root b3.Root) ([]byte, error) { return o[root], object(root, false) }
	err := manifest.Walk(t.Context(), get, root, func(_ string, e manifest.Entry) error {
		if e.Kind != manifest.File {
			return nil
		}
		return object(e.Root, e.Size > bodies)
	})
	if err == nil {
		err = w.End(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// encode writes the verified encoding of p.
func encode(to io.Writer, root b3.Root, p []byte) error {
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	if _, err := h.Write(p); err != nil {
		return err
	}
	if _, _, err := h.Sum(); err != nil {
		return err
	}
	size := int64(len(p))
	src := b3.FileSource(bytes.NewReader(p), bytes.NewReader(outboard.Bytes()), size)
	e, err := bao.NewEncoder(b3.NewReader(root, size, src), b3.Range{End: -1})
	if err == nil {
		_, err = e.WriteTo(to)
	}
	return err
}

// read reads a whole bundle and returns a line for each entry.
func read(ctx context.Context, root b3.Root, src io.Reader) (map[string]string, error) {
	r, n, files := bundle.NewReader(root, src), uint32(0), map[string]string{}
	get := func(_ context.Context, root b3.Root) ([]byte, error) {
		p, ok, err := r.Object(n, root, -1)
		n++
		if err == nil && !ok {
			err = errors.New("a manifest is left out")
		}
		return p, err
	}
	err := manifest.Walk(ctx, get, root, func(path string, e manifest.Entry) error {
		switch e.Kind {
		case manifest.Directory:
			files[path] = "directory"
		case manifest.Link:
			files[path] = "link " + e.Target
		case manifest.File:
			p, ok, err := r.Object(n, e.Root, e.Size)
			n++
			files[path] = fmt.Sprintf("file %d %s %t", e.Size, b3.Sum(p).Hex(), e.Executable)
			if !ok {
				files[path] = "left out"
			}
			return err
		}
		return nil
	})
	if err != nil {
		return files, err
	}
	return files, r.End(n)
}

// vectors are golden bundles, and what is wrong with changed ones.
type vectors struct {
	Root    string            `json:"root"`
	Bundles map[string]vector `json:"bundles"`
	Broken  []broken          `json:"broken"`
}

type vector struct {
	Bytes   []byte            `json:"bytes"` // base64
	Entries map[string]string `json:"entries"`
}

// broken is a bundle in which the bytes [At, At+Drop) are others.
type broken struct {
	Why  string `json:"why"`
	Of   string `json:"of"`
	At   int    `json:"at"`
	Drop int    `json:"drop"`
	Put  []byte `json:"put"` // base64
	Cut  bool   `json:"cut"` // it is cut, not false
}

func (b broken) apply(p []byte) []byte {
	return slices.Concat(p[:min(b.At, len(p))], b.Put, p[min(b.At+b.Drop, len(p)):])
}

// makeVectors returns the vectors of tree.
func makeVectors(t testing.TB) vectors {
	o, root := tree(t)
	v := vectors{Root: root.String(), Bundles: map[string]vector{}}
	for name, bodies := range map[string]int64{"whole": bundle.MaxBody, "manifests": -1, "small": 5} {
		p := o.write(t, root, bodies, nil)
		files, err := read(t.Context(), root, bytes.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		v.Bundles[name] = vector{p, files}
	}
	whole := len(v.Bundles["whole"].Bytes)
	const first = len(bundle.Magic) + b3.Size // the first record
	const size, body = first + 37, first + 37 + 8
	v.Broken = []broken{
		{"another version", "whole", len(bundle.Magic) - 2, 1, []byte("2"), false},
		{"another directory", "whole", len(bundle.Magic), 1, []byte{1}, false},
		{"an unknown record", "whole", first, 1, []byte{3}, false},
		{"the end too early", "whole", first, 1, []byte{0}, false},
		{"another number", "whole", first + 1, 1, []byte{1}, false},
		{"another object", "whole", first + 5, 1, []byte{1}, false},
		{"a false size", "whole", size, 1, []byte{1}, false},
		{"an endless size", "whole", size, 8, bytes.Repeat([]byte{0xff}, 8), false},
		{"a false byte", "whole", body + 30, 1, []byte{1}, false},
		{"a false parent", "whole", parentOf(t, v.Bundles["whole"].Bytes), 1, []byte{1}, false},
		{"a false total", "whole", whole - b3.Size - 4, 1, []byte{200}, false},
		{"bytes behind the end", "whole", whole, 0, []byte{0}, false},
		{"no end", "whole", whole - 37, 37, nil, true},
		{"nothing", "whole", 0, whole, nil, true},
		{"half", "whole", whole / 2, whole - whole/2, nil, true},
	}
	return v
}

// parentOf returns where the parent of the large file is.
func parentOf(t testing.TB, p []byte) int {
	at := bytes.Index(p, binary.LittleEndian.AppendUint64(nil, b3.GroupSize+1))
	if at < 0 {
		t.Fatal("the bundle has no large file")
	}
	return at + 8
}

// TestVectors: the golden bundles are what they were, and read as they did; a broken one is corrupt or cut.
func TestVectors(t *testing.T) {
	t.Parallel()
	made, err := json.MarshalIndent(makeVectors(t), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const name = "testdata/vectors.json"
	if *update {
		if err := os.WriteFile(name, append(made, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, append(made, '\n')) {
		t.Error("the vectors have changed; if that is meant, Magic needs another version")
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	_, root := tree(t)
	for name, b := range v.Bundles {
		files, err := read(t.Context(), root, bytes.NewReader(b.Bytes))
		if err != nil || !maps.Equal(files, b.Entries) {
			t.Errorf("%s: %v, %v", name, files, err)
		}
	}
	for _, b := range v.Broken {
		p := b.apply(v.Bundles[b.Of].Bytes)
		_, err := read(t.Context(), root, bytes.NewReader(p))
		cut := errors.Is(err, io.ErrUnexpectedEOF)
		if err == nil || cut != b.Cut || cut == errors.Is(err, b3.ErrCorrupt) {
			t.Errorf("%s: %v", b.Why, err)
		}
	}
}

// TestCut: a bundle that is cut after any byte is never whole, and what was read of it is true.
func TestCut(t *testing.T) {
	t.Parallel()
	o, root := tree(t)
	whole := o.write(t, root, bundle.MaxBody, nil)
	want, err := read(t.Context(), root, bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if cut > 2000 && cut < len(whole)-2000 && cut%997 > 0 {
			continue // within the large file
		}
		files, err := read(t.Context(), root, bytes.NewReader(whole[:cut]))
		if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, b3.ErrCorrupt) {
			t.Fatalf("cut after %d of %d bytes: %v", cut, len(whole), err)
		}
		for path, got := range files {
			if got != want[path] && got != "left out" {
				t.Fatalf("cut after %d: %s is %s", cut, path, got)
			}
		}
	}
}

// TestRest: the rest of a bundle from any object on, and any selection, is read by whoever has the manifests.
func TestRest(t *testing.T) {
	t.Parallel()
	o, root := tree(t)
	var all []b3.Root
	get := func(_ context.Context, root b3.Root) ([]byte, error) {
		all = append(all, root)
		return o[root], nil
	}
	err := manifest.Walk(t.Context(), get, root, func(_ string, e manifest.Entry) error {
		if e.Kind == manifest.File {
			all = append(all, e.Root)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, only := range map[string]func(uint32) bool{
		"from 4": func(n uint32) bool { return n >= 4 }, "odd": func(n uint32) bool { return n%2 == 1 },
		"none": func(uint32) bool { return false },
	} {
		r := bundle.NewReader(root, bytes.NewReader(o.write(t, root, bundle.MaxBody, only)))
		for n, object := range all {
			if !only(uint32(n)) {
				continue
			}
			if p, ok, err := r.Object(uint32(n), object, -1); err != nil || !ok || b3.Sum(p) != object {
				t.Fatalf("%s: object %d: %v", name, n, err)
			}
		}
		if err := r.End(uint32(len(all))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReader: whatever the bytes, what is read is what the addresses say, and the memory is bounded.
func FuzzReader(f *testing.F) {
	o, root := tree(f)
	for _, bodies := range []int64{-1, 5} {
		f.Add(o.write(f, root, bodies, nil))
	}
	for _, b := range makeVectors(f).Broken {
		f.Add(b.apply(o.write(f, root, 5, nil)))
	}
	want, err := read(f.Context(), root, bytes.NewReader(o.write(f, root, bundle.MaxBody, nil)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		files, err := read(t.Context(), root, bytes.NewReader(p))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%d bytes took %d bytes of memory", len(p), used)
		}
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, b3.ErrCorrupt) &&
				!strings.Contains(err.Error(), "left out") {
				t.Errorf("%v", err)
			}
			return
		}
		for path, got := range files {
			if got != want[path] && got != "left out" {
				t.Errorf("%s is %s", path, got)
			}
		}
	})
}
