package files

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/node/files/archive"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// sorted is what a sorter gives of items.
func sorted(s *sorter, items []*pipelineItem) (got []*pipelineItem, err error) {
	for _, a := range items {
		if err := s.add(context.Background(), a); err != nil {
			return nil, err
		}
	}
	err = s.each(context.Background(), func(_ context.Context, a *pipelineItem) error {
		got = append(got, a)
		return nil
	})
	return got, err
}

// TestSorter sorts more entries than RAM is for, in a random order, each
// file twice: every path comes once, after its directory and in the order of
// names, with what the last entry said; nothing stays in the directory.
func TestSorter(t *testing.T) {
	t.Parallel()
	const files = 40_000
	rng := rand.New(rand.NewPCG(1, 2))
	items := make([]*pipelineItem, 0, 2*files)
	for round := range 2 {
		for _, i := range rng.Perm(files) {
			items = append(items, &pipelineItem{
				Item: Item{Path: fmt.Sprintf("top/d%d/d%d/file-%d", i%7, i%311,
					i), Kind: manifest.File, Executable: i%2 == 0},
				object: Object{Root: b3.Sum(fmt.Append(nil, round, i)), Size: int64(i), New: i%3 == 0},
				reused: i%5 == 0,
			})
		}
	}
	dir := t.TempDir()
	s := newSorter(dir, &addNotes{}, "")
	defer s.close()
	got, err := sorted(s, items)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.runs) < 2 {
		t.Errorf("%d runs went to disk", len(s.runs))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v are in the directory", left, err)
	}
	n, seen := 0, map[string]bool{}
	for i, a := range got {
		if i > 0 && strings.ReplaceAll(got[i-1].Path, "/", "\x00") >= strings.ReplaceAll(a.Path, "/", "\x00") {
			t.Fatalf("%s comes after %s", a.Path, got[i-1].Path)
		}
		if above := path.Dir(a.Path); above != "." && !seen[above] {
			t.Fatalf("%s comes before %s", a.Path, above)
		}
		if a.Kind == manifest.Directory {
			seen[a.Path] = true
			continue
		}
		n++
		i := int(a.object.Size)
		if a.object.Root != b3.Sum(fmt.Append(nil, 1, i)) || a.Executable != (i%2 == 0) ||
			a.object.New != (i%3 == 0) || a.reused != (i%5 == 0) {
			t.Fatalf("%s is not what came last: %+v", a.Path, a)
		}
	}
	if n != files {
		t.Errorf("%d files of %d", n, files)
	}

	s = newSorter("", &addNotes{}, "")
	_, err = sorted(s, items)
	if status.Of(err) != status.BodyCap {
		t.Errorf("without a disk: %v", err)
	}
	s = newSorter("", &addNotes{}, "")
	_, err = sorted(s, []*pipelineItem{
		{Item: Item{Path: "a/b", Kind: manifest.File}},
		{Item: Item{Path: "a", Kind: manifest.File}},
	})
	if status.Of(err) != status.BadRequest {
		t.Errorf("a file and a directory of one name: %v", err)
	}
}

// FuzzAnyTar takes tars apart that nobody vouches for. Whatever comes, what is
// added has paths that a directory can hold, in order, each once, and below a
// directory that came before.
func FuzzAnyTar(f *testing.F) {
	tarOf := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Size = 0
			if err := w.WriteHeader(&h); err != nil {
				f.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	f.Add(tarOf(
		tar.Header{Name: "./b/c", Typeflag: tar.TypeReg},
		tar.Header{Name: "./", Typeflag: tar.TypeDir},
		tar.Header{Name: "a", Typeflag: tar.TypeReg},
	), true)
	f.Add(tarOf(
		tar.Header{Name: "../x", Typeflag: tar.TypeReg},
		tar.Header{Name: "/etc/passwd", Typeflag: tar.TypeReg},
	), false)
	f.Add(tarOf(
		tar.Header{Name: "d/l", Linkname: "/etc", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "d/l/x", Typeflag: tar.TypeReg},
	), true)
	f.Add(tarOf(
		tar.Header{Name: "d/h", Linkname: "d/x", Typeflag: tar.TypeLink},
		tar.Header{Name: "d/e\u0301", Typeflag: tar.TypeReg},
	), true)
	f.Fuzz(func(t *testing.T, p []byte, skip bool) {
		onBad := api.RefuseBadEntries
		if skip {
			onBad = api.SkipBadEntries
		}
		var notes addNotes
		var items []*pipelineItem
		for it, err := range anyItems(archive.NewTar(bytes.NewReader(p)), "", &notes, onBad) {
			if err != nil {
				if o := status.Of(err); o != status.BadRequest {
					t.Fatalf("%s: %v", o, err)
				}
				return
			}
			items = append(items, &pipelineItem{Item: it})
		}
		if !skip && notes.n.SkippedCount > 0 {
			t.Fatal("a bad entry was not refused")
		}
		got, err := sorted(newSorter("", &notes, onBad), items)
		if err != nil {
			if o := status.Of(err); o != status.BadRequest && o != status.BodyCap {
				t.Fatalf("%s: %v", o, err)
			}
			return
		}
		kinds := map[string]manifest.EntryKind{}
		for _, a := range got {
			names := strings.Split(a.Path, "/")
			if slices.ContainsFunc(names, func(n string) bool { return manifest.NameProblem(n) != "" }) {
				t.Fatalf("%q is added", a.Path)
			}
			if _, ok := kinds[a.Path]; ok {
				t.Fatalf("%q comes twice", a.Path)
			}
			if above := path.Dir(a.Path); above != "." {
				if kind, ok := kinds[above]; !ok || kind != manifest.Directory {
					t.Fatalf("%q is not below a directory", a.Path)
				}
			}
			kinds[a.Path] = a.Kind
		}
	})
}
