package extract

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

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
		extractInside(t, Options{AllowCaseCollisions: allow}, func(x *Extractor) error {
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
	up, _ := build(f, o.put, []manifest.Entry{fileEntry("a", "x"), {Name: "b", Kind: manifest.Link, Target: "a"}})
	f.Add(o[up], o[up])
	sub, size := build(f, o.put, []manifest.Entry{{Name: "up", Kind: manifest.Link, Target: "../../canary"}})
	dir, _ := build(f, o.put, []manifest.Entry{
		{Name: "d", Kind: manifest.Directory, Root: sub, Size: size},
		{Name: "l", Kind: manifest.Link, Target: "/etc"},
	})
	f.Add(o[dir], o[sub])
	f.Fuzz(func(t *testing.T, top, below []byte) {
		nodes := objects{b3.Sum(top): top, b3.Sum(below): below}
		content := func(_ context.Context, e manifest.Entry) (io.Reader, error) {
			return io.LimitReader(strings.NewReader(strings.Repeat("x", 1<<16)), e.Size), nil
		}
		extractInside(t, Options{}, func(x *Extractor) error {
			return extract(t.Context(), x, nodes.get, content, b3.Sum(top))
		})
	})
}

// extractInside runs an extraction beside a canary, to its end or its first
// error, and fails when anything but the target has changed.
func extractInside(t *testing.T, opts Options, run func(*Extractor) error) {
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

// BenchmarkExtract1k writes a thousand files of 4 KiB.
func BenchmarkExtract1k(b *testing.B) {
	o := objects{}
	content := string(make([]byte, 4<<10))
	o[b3.Sum([]byte(content))] = []byte(content)
	var entries []manifest.Entry
	for i := range 1000 {
		entries = append(entries, fileEntry(fmt.Sprintf("%04d", i), content))
	}
	root, _ := build(b, o.put, entries)
	dir, i := b.TempDir(), 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		x, err := Begin(fmt.Sprintf("%s/%d", dir, i), Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := extract(b.Context(), x, o.get, o.content, root); err != nil {
			b.Fatal(err)
		}
		if err := x.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1e3/b.Elapsed().Seconds(), "files/s")
}
