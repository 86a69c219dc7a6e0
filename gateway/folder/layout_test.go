package folder

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/gateway/content"
	"allium/gateway/content/byterange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// fakeSource has the objects of a tree in memory, and files of zeros that take none.
type fakeSource struct {
	ctx   context.Context
	m     map[b3.Root][]byte
	zeros map[b3.Root]int64
	read  int64 // bytes of files
}

func newSource(t testing.TB) *fakeSource {
	return &fakeSource{t.Context(), map[b3.Root][]byte{}, map[b3.Root]int64{}, 0}
}

func (f *fakeSource) Context() context.Context         { return f.ctx }
func (f *fakeSource) Memory(b3.Root) []byte            { return nil }
func (f *fakeSource) Allowed(string, b3.Root) error    { return nil }
func (f *fakeSource) Arrives()                         {}
func (f *fakeSource) Acquire() (leave func(), e error) { return func() {}, nil }

func (f *fakeSource) Fetch(context.Context, b3.Root) (content.Content, error) {
	return nil, errors.New("all is here")
}

func (f *fakeSource) Open(root b3.Root) (content.Content, bool, error) {
	if n, ok := f.zeros[root]; ok {
		return &fakeContent{f: f, size: n}, false, nil
	}
	p, ok := f.m[root]
	if !ok {
		return nil, false, status.Errorf(status.NotFound, "%s is not here", root)
	}
	return &fakeContent{f, p, int64(len(p))}, false, nil
}

type fakeContent struct {
	f    *fakeSource
	p    []byte // nil: zeros
	size int64
}

func (c *fakeContent) Size() int64  { return c.size }
func (c *fakeContent) Close() error { return nil }
func (c *fakeContent) Encode(context.Context, io.Writer, int64, int64) error {
	return errors.New("none")
}

func (c *fakeContent) Copy(_ context.Context, w io.Writer, start, end int64) error {
	if !manifest.IsManifest(c.p) {
		c.f.read += end - start
	}
	if c.p != nil {
		_, err := w.Write(c.p[start:end])
		return err
	}
	var group [b3.GroupSize]byte
	for start < end {
		n := min(end-start, b3.GroupSize)
		if _, err := w.Write(group[:n]); err != nil {
			return err
		}
		start += n
	}
	return nil
}

// put stores an object.
func (f *fakeSource) put(p []byte) b3.Root {
	root := b3.Sum(p)
	f.m[root] = bytes.Clone(p)
	return root
}

// dir stores a directory.
func (f *fakeSource) dir(t testing.TB, name string, entries ...manifest.Entry) manifest.Entry {
	t.Helper()
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return f.put(p), nil })
	for _, e := range entries {
		if err := b.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, size, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Entry{Name: name, Kind: manifest.Directory, Root: root, Size: size}
}

func (f *fakeSource) file(name, text string) manifest.Entry {
	return manifest.Entry{Name: name, Root: f.put([]byte(text)), Size: int64(len(text))}
}

func (f *fakeSource) tree(root b3.Root) *tree {
	return &tree{source: f, root: root, most: Config{MaxEntries: math.MaxInt64, MaxBytes: math.MaxInt64}}
}

// sparse is an archive of which only the bytes that are not zero are kept.
type sparse struct {
	size   int64
	chunks map[int64][]byte // by offset in units of chunkSize
}

const chunkSize = 1 << 12

var zeroChunk [chunkSize]byte

func (s *sparse) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		at := s.size % chunkSize
		k := min(chunkSize-at, int64(len(p)))
		if c := s.chunks[s.size/chunkSize]; c != nil || !bytes.Equal(p[:k], zeroChunk[:k]) {
			if c == nil {
				c = make([]byte, chunkSize)
				s.chunks[s.size/chunkSize] = c
			}
			copy(c[at:], p[:k])
		}
		s.size += k
		p = p[k:]
	}
	return n, nil
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off < s.size {
		at := off % chunkSize
		k := min(chunkSize-at, int64(len(p)-n), s.size-off)
		clear(p[n : n+int(k)])
		if c := s.chunks[off/chunkSize]; c != nil {
			copy(p[n:n+int(k)], c[at:])
		}
		n, off = n+int(k), off+k
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// archived writes a whole archive, and checks its announced length.
func archived(t testing.TB, format string, tree *tree, out io.Writer) (size, list int64) {
	t.Helper()
	var all window
	list, err := write(format, tree, &all, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &window{Range: byterange.Range{End: all.at}, out: out}
	if _, err := write(format, tree, w, list); err != nil {
		t.Fatal(err)
	}
	if w.at != all.at {
		t.Fatalf("%d bytes were announced, and %d written", all.at, w.at)
	}
	return all.at, list
}

// TestLarge: files of 4 GiB and more, entries behind them, and more than 65,535 of them.
func TestLarge(t *testing.T) {
	t.Parallel()
	f := newSource(t)
	sizes := []int64{1<<32 - 1}
	var entries []manifest.Entry
	for i, size := range sizes {
		root := b3.Sum(fmt.Append(nil, "zeros ", size))
		f.zeros[root] = size
		entries = append(entries, manifest.Entry{Name: fmt.Sprint("z", i), Root: root, Size: size})
	}
	entries = append(entries, f.file("zz", "behind"))
	large := f.tree(f.dir(t, "", entries...).Root)
	out := &sparse{chunks: map[int64][]byte{}}
	size, _ := archived(t, formatZip, large, out)
	z, err := zip.NewReader(out, size)
	if err != nil || len(z.File) != len(entries) {
		t.Fatalf("%v", err)
	}
	for i, file := range z.File {
		if file.Name != entries[i].Name || file.UncompressedSize64 != uint64(entries[i].Size) {
			t.Errorf("%+v", file.FileHeader)
		}
	}
	last, err := z.File[1].Open()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := io.ReadAll(last); string(p) != "behind" || err != nil {
		t.Errorf("%q, %v", p, err)
	}
	if !testing.Short() { // its checksum too, and the zip64 descriptor
		r, err := z.File[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); n != sizes[0] || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}

	entries = entries[:0]
	same := f.file("", "x")
	for i := range 70_000 {
		same.Name = fmt.Sprintf("%05d", i)
		entries = append(entries, same)
	}
	many := f.tree(f.dir(t, "", entries...).Root)
	var b bytes.Buffer
	archived(t, formatZip, many, &b)
	if z, err = zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil || len(z.File) != 70_000 {
		t.Errorf("%v", err)
	}
}

// TestSizes: each size is in 32 bits or in the extra field, and never in both.
func TestSizes(t *testing.T) {
	t.Parallel()
	for size, extra := range map[int64]int{0: 0, 1<<32 - 2: 0, 1<<32 - 1: 20, 1 << 40: 20} {
		r := zipRecord{path: "x", e: &manifest.Entry{Root: b3.Root{1}, Size: size}}
		if n := len(r.local()); n != 30+1+extra {
			t.Errorf("%d: a local header of %d bytes", size, n)
		}
		if n := len(r.descriptor()); n != 16+2*extra/5 {
			t.Errorf("%d: a descriptor of %d bytes", size, n)
		}
		r.at = 1 << 33
		if n := len(r.central()); n != 46+1+8+max(extra, 4) {
			t.Errorf("%d: a record of %d bytes in the list", size, n)
		}
	}
}

// TestLargeTar: a tar says the size of a file of more than 8 GiB.
func TestLargeTar(t *testing.T) {
	t.Parallel()
	var head bytes.Buffer
	e := manifest.Entry{Name: "x", Size: 1 << 40, Root: b3.Root{1}}
	if err := tarHead(&head, "x", &e); err != nil {
		t.Fatal(err)
	}
	if h, err := tar.NewReader(&head).Next(); err != nil || h.Size != 1<<40 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestGolden: the bytes of a layout do not change without its version.
func TestGolden(t *testing.T) {
	t.Parallel()
	f := newSource(t)
	run := f.file("run.sh", "#!")
	run.Executable = true
	root := f.dir(t, "", f.file("a", ""), f.dir(t, "d", f.file("x", "hello"),
		manifest.Entry{Name: "y", Kind: manifest.Link, Target: "x"}),
		f.file(strings.Repeat("n", 200), "long"), run, f.file("é", "accent")).Root
	for format, want := range map[string]string{
		formatTar: "0d7dc77e09663a2a22c612ad0768883cc3ecb31fabf96fac3de53f7e2810fcb0",
		formatZip: "862a3a62b0e826ac88da4754a6d00c5856014ad3e0ea6431230ea03cb927d3bd",
	} {
		var b bytes.Buffer
		archived(t, format, f.tree(root), &b)
		if got := b3.Sum(b.Bytes()).Hex(); got != want {
			t.Errorf("%s has %s. If that is meant, raise layoutVersion", format, got)
		}
	}
}

// genTree makes a tree with any names that a manifest takes.
func genTree(t testing.TB, rt *rapid.T, f *fakeSource, depth int) []manifest.Entry {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Zé0-9 ._%\x01🧅-]{1,120}`), 0, 5, rapid.ID[string])
	var entries []manifest.Entry
	for _, name := range names.Draw(rt, "names") {
		if name = manifest.Normal(name); manifest.NameProblem(name) != "" {
			continue
		}
		e := f.file(name, rapid.StringN(0, 900, 2000).Draw(rt, "content"))
		e.Executable = rapid.Bool().Draw(rt, "executable")
		switch kind := rapid.IntRange(0, 5).Draw(rt, "kind"); {
		case kind == 0:
			e = manifest.Entry{Name: name, Kind: manifest.Link, Target: "x"}
		case kind == 1 && depth > 0:
			e = f.dir(t, name, genTree(t, rt, f, depth-1)...)
		}
		entries = append(entries, e)
	}
	return sorted(entries)
}

func sorted(entries []manifest.Entry) (all []manifest.Entry) {
	for len(entries) > 0 {
		least := 0
		for i := range entries {
			if entries[i].Name < entries[least].Name {
				least = i
			}
		}
		e := entries[least]
		entries = append(entries[:least:least], entries[least+1:]...)
		if len(all) == 0 || all[len(all)-1].Name != e.Name {
			all = append(all, e)
		}
	}
	return all
}

// TestRanges: each range of an archive of any tree is a part of the whole, and a range of a tar reads nothing beside.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newSource(t)
		root := f.dir(t, "", genTree(t, rt, f, 3)...).Root
		tree := f.tree(root)
		for _, format := range []string{formatTar, formatZip} {
			var whole bytes.Buffer
			size, list := archived(t, format, tree, &whole)
			checkNames(rt, format, whole.Bytes(), tree.entries)
			from := rapid.Int64Range(0, size-1).Draw(rt, "from")
			r := byterange.Range{Start: from, End: rapid.Int64Range(from+1, size).Draw(rt, "to")}
			dry := &window{Range: r}
			if _, err := write(format, tree, dry, list); err != nil {
				rt.Fatal(err)
			}
			var part bytes.Buffer
			f.read = 0
			w := &window{Range: r, out: &part}
			if _, err := write(format, tree, w, list); err != nil {
				rt.Fatal(err)
			}
			if !bytes.Equal(part.Bytes(), whole.Bytes()[r.Start:r.End]) {
				rt.Fatalf("%s: the range %+v is another one", format, r)
			}
			if f.read != dry.reads || format == formatTar && f.read > r.Len() {
				rt.Fatalf("%s: %+v read %d bytes, not %d", format, r, f.read, dry.reads)
			}
		}
	})
}

// checkNames reads an archive.
func checkNames(rt *rapid.T, format string, p []byte, entries int64) {
	if format == formatZip {
		z, err := zip.NewReader(bytes.NewReader(p), int64(len(p)))
		if err != nil || int64(len(z.File)) != entries {
			rt.Fatalf("%v", err)
		}
		return
	}
	n := int64(0)
	for r := tar.NewReader(bytes.NewReader(p)); ; n++ {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			rt.Fatal(err)
		}
	}
	if n != entries {
		rt.Fatalf("%d entries, not %d", n, entries)
	}
}

// FuzzLayout: whatever a name, a target and a size are, an archive is refused or is as long as it was announced.
func FuzzLayout(f *testing.F) {
	f.Add("a", "b", int64(3), true)
	f.Add(`..\..\x`, "/etc/passwd", int64(0), false)
	f.Add("C:", "..", int64(1<<40), false)
	f.Add(strings.Repeat("é", 127), strings.Repeat("x/", 2000), int64(math.MaxInt64), true)
	f.Fuzz(func(t *testing.T, name, target string, size int64, link bool) {
		s := newSource(t)
		e := manifest.Entry{Name: manifest.Normal(name), Root: b3.Root{1}, Size: size}
		if link {
			e = manifest.Entry{Name: manifest.Normal(name), Kind: manifest.Link, Target: target}
		}
		b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return s.put(p), nil })
		if b.Add(t.Context(), e) != nil {
			return
		}
		root, _, err := b.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tree := s.tree(root)
		tree.most.MaxBytes = 1 << 40
		for _, format := range []string{formatTar, formatZip} {
			var all window
			list, err := write(format, tree, &all, 0)
			switch status.Of(err) {
			case status.OK:
			case status.Unsupported, status.BodyCap, status.Corrupt:
				continue
			default:
				t.Fatalf("%s: %v", format, err)
			}
			if size > 1<<20 && !link {
				continue
			}
			s.zeros[e.Root] = size
			var out bytes.Buffer
			if n, _ := archived(t, format, tree, &out); n != int64(out.Len()) || n < list {
				t.Errorf("%s: %d bytes of %d", format, out.Len(), n)
			}
			if strings.Contains(name, `\`) && format == formatZip {
				t.Errorf("%q is in a zip", name)
			}
		}
	})
}
