package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

func begin(t testing.TB, target string, opts ExtractOptions) *Extractor {
	t.Helper()
	x, err := Begin(target, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Abort(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// noContent stands for files that are never reached.
func noContent(_ context.Context, e Entry) (io.ReadCloser, error) {
	return nil, fmt.Errorf("nobody has %s", e.Root)
}

// content makes an Opener of a set of file contents.
func (o objects) content(ctx context.Context, e Entry) (io.ReadCloser, error) {
	p, err := o.get(ctx, e.Root)
	return io.NopCloser(bytes.NewReader(p)), err
}

// snapshot describes everything below dir: kind, permissions and content.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		what := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			p, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what += " " + string(p)
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			what = "-> " + target
		}
		all[filepath.ToSlash(rel)] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestExtractTree(t *testing.T) {
	for _, opts := range []ExtractOptions{{}, {Sync: true}, {AllowCaseCollisions: true}} {
		o := objects{}
		file := func(name, s string) Entry {
			o[b3.Sum([]byte(s))] = []byte(s)
			return fileEntry(name, s)
		}
		run := file("run", "#!/bin/sh\n")
		run.Executable = true
		empty, emptySize := build(t, o.put, standard, nil)
		sub, subSize := build(t, o.put, standard, []Entry{
			file("a", "in sub"),
			{Name: "empty", Kind: Directory, Root: empty, Size: emptySize},
			{Name: "up", Kind: Link, Target: "../run"},
		})
		manifest := Entry{Name: "manifest", Kind: File, Root: sub, Size: subSize} // a file all the same
		root, size := build(t, o.put, split{min: 200, max: 5000, modulus: 2}, []Entry{
			{Name: "dangling", Kind: Link, Target: "./no/such//file"},
			{Name: "here", Kind: Link, Target: "."},
			manifest,
			run,
			{Name: "sub", Kind: Directory, Root: sub, Size: subSize},
			{Name: "sub2", Kind: Directory, Root: sub, Size: subSize},
			file("zero", ""),
		})
		parent := t.TempDir()
		x := begin(t, parent+"/out", opts)
		if err := x.Tree(t.Context(), o.get, o.content, Entry{Kind: Directory, Root: root, Size: size}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(parent + "/out"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the target is there before Commit: %v", err)
		}
		if err := x.Commit(); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			".":          "drwxr-xr-x",
			"dangling":   "-> ./no/such//file",
			"here":       "-> .",
			"manifest":   "-rw-r--r-- " + string(o[sub]),
			"run":        "-rwxr-xr-x #!/bin/sh\n",
			"sub":        "drwxr-xr-x",
			"sub/a":      "-rw-r--r-- in sub",
			"sub/empty":  "drwxr-xr-x",
			"sub/up":     "-> ../run",
			"sub2":       "drwxr-xr-x",
			"sub2/a":     "-rw-r--r-- in sub",
			"sub2/empty": "drwxr-xr-x",
			"sub2/up":    "-> ../run",
			"zero":       "-rw-r--r-- ",
		}
		if got := snapshot(t, parent+"/out"); !maps.Equal(got, want) {
			t.Errorf("%+v: got %q, want %q", opts, got, want)
		}
		if got := names(t, parent); got != "out" {
			t.Errorf("left behind: %s", got)
		}
		if err := x.Abort(); err != nil {
			t.Errorf("abort after commit: %v", err)
		}
		if err := x.Commit(); err == nil {
			t.Error("committed twice")
		}
	}
}

func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// step is one call of an extraction: d path, f path content, l path target.
type step struct{ op, path, arg string }

func (s step) run(x *Extractor) error {
	switch s.op {
	case "d":
		return x.Dir(s.path)
	case "f":
		return x.File(s.path, int64(len(s.arg)), false, strings.NewReader(s.arg))
	}
	return x.Symlink(s.path, s.arg)
}

// TestHostileExtraction runs steps that a manifest, or whoever speaks for one,
// could ask for. The last one is refused, names its entry, and nothing changes
// outside the target.
func TestHostileExtraction(t *testing.T) {
	root := step{"d", "", ""}
	for _, c := range []struct {
		name  string
		want  string // part of the error
		steps []step
	}{
		{"dot dot", "", []step{root, {"f", "../canary", "x"}}},
		{"dot dot below", "", []step{root, {"d", "a", ""}, {"f", "a/../../canary", "x"}}},
		{"dot dot as a name", "reserved", []step{root, {"d", "..", ""}}},
		{"dot as a name", "reserved", []step{root, {"d", ".", ""}}},
		{"absolute", "absolute", []step{root, {"f", "/canary", "x"}}},
		{"absolute below", "", []step{root, {"f", "//canary", "x"}}},
		{"NUL", "NUL", []step{root, {"f", "a\x00b", "x"}}},
		{"not NFC", "normal form", []step{root, {"f", "e\u0301", "x"}}},
		{"empty name", "empty", []step{root, {"d", "a", ""}, {"f", "a/", "x"}}},
		{"a long name", "limit is 255", []step{root, {"f", strings.Repeat("x", 256), "x"}}},
		{"a long path", "limit is 4096", []step{root, {"f", strings.Repeat("x/", 2048) + "x", "x"}}},
		{"no directory", "not a directory", []step{root, {"f", "a/b", "x"}}},
		{"no target", "not a directory", []step{{"f", "a", "x"}}},
		{"a file as a directory", "not a directory", []step{root, {"f", "a", "x"}, {"f", "a/b", "x"}}},
		{"a directory that was left", "not a directory", []step{root, {"d", "a", ""}, {"f", "b", ""}, {"f", "a/b", "x"}}},
		{"two targets", "there already", []step{root, {"d", "", ""}}},
		{"a link as the target", "a link alone", []step{{"l", "", "x"}}},

		{"an absolute link", "leads out", []step{root, {"l", "a", "/etc"}}},
		{"a link to the parent", "leads out", []step{root, {"l", "a", ".."}}},
		{"a link to a sibling", "leads out", []step{root, {"l", "a", "../canary"}}},
		{"a link that climbs", "leads out", []step{root, {"d", "a", ""}, {"l", "a/b", "../../canary"}}},
		{"a link that dives and climbs", "leads out", []step{root, {"l", "a", "b/../../canary"}}},
		{"a link over a link", "leads out", []step{root, {"d", "a", ""}, {"d", "a/b", ""}, {"l", "a/b/up", "../.."}, {"l", "esc", "a/b/up/../canary"}}},
		{"a link over a link below", "leads out", []step{root, {"d", "a", ""}, {"d", "a/b", ""}, {"l", "a/b/up", "../.."}, {"l", "a/b/esc", "up/../canary"}}},
		{"a link with dots", "leads out", []step{root, {"l", "a", ".//./../canary"}}},
		{"a link with NUL", "NUL", []step{root, {"l", "a", "b\x00"}}},
		{"an empty link", "no target", []step{root, {"l", "a", ""}}},
		{"a long link", "limit is 4096", []step{root, {"l", "a", strings.Repeat("x", 4097)}}},
		{"below a link", "not a directory", []step{root, {"l", "a", "."}, {"f", "a/b", "x"}}},
		{"a directory over a link", "there twice", []step{root, {"l", "a", "."}, {"d", "a", ""}}},
		{"a file over a link", "there twice", []step{root, {"l", "a", "b"}, {"f", "a", "x"}}},

		{"two files", "there twice", []step{root, {"f", "a", "x"}, {"f", "a", "y"}}},
		{"two directories", "there twice", []step{root, {"d", "a", ""}, {"d", "a", ""}}},
		{"two links", "there twice", []step{root, {"l", "a", "b"}, {"l", "a", "b"}}},
		{"a file over a directory", "there twice", []step{root, {"d", "a", ""}, {"f", "a", "x"}}},
		{"a link over a directory", "there twice", []step{root, {"d", "a", ""}, {"l", "a", "."}}},

		{"case", `same name as "README"`, []step{root, {"f", "README", "x"}, {"f", "readme", "y"}}},
		{"case of directories", `same name as "Src"`, []step{root, {"d", "Src", ""}, {"f", "Src/x", ""}, {"d", "src", ""}}},
		{"case of a link", `same name as "A"`, []step{root, {"l", "A", "."}, {"d", "a", ""}}},
		{"case of a link below", `same name as "A"`, []step{root, {"d", "d", ""}, {"l", "d/A", "."}, {"d", "d/a", ""}}},
		{"case beyond ASCII", `same name as "Ä"`, []step{root, {"f", "Ä", "x"}, {"f", "ä", "y"}}},
		{"folding", `same name as "STRASSE"`, []step{root, {"f", "STRASSE", "x"}, {"f", "straße", "y"}}},
		{"final sigma", `same name as "Σ"`, []step{root, {"f", "Σ", "x"}, {"f", "ς", "y"}}},
		{"long s", `same name as "s"`, []step{root, {"f", "s", "x"}, {"f", "ſ", "y"}}},
		{"decomposition before folding", `same name as "α̣ι"`, []step{root, {"f", "α\u0323ι", "x"}, {"f", "ᾳ\u0323", "y"}}},
		{"folding then normalisation", `same name as "ΐ"`, []step{root, {"f", "ΐ", "x"}, {"f", "Ϊ́", "y"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := t.TempDir()
			if err := os.WriteFile(outer+"/canary", []byte("tweet"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, outer)
			x := begin(t, outer+"/out", ExtractOptions{})
			last := len(c.steps) - 1
			for _, s := range c.steps[:last] {
				if err := s.run(x); err != nil {
					t.Fatalf("%v: %v", s, err)
				}
			}
			err := c.steps[last].run(x)
			var named *EntryError
			want := c.steps[last].path
			if want == "" {
				want = outer + "/out"
			}
			if !errors.As(err, &named) || named.Entry != want || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v: %v; want %q", c.steps[last], err, c.want)
			}
			if o := status.Of(err); o != status.BadRequest && o != status.Conflict {
				t.Errorf("outcome %v", o)
			}
			if again := x.Commit(); !errors.Is(again, err) {
				t.Errorf("commit after a refusal: %v", again)
			}
			if again := x.Dir("fine"); !errors.Is(again, err) {
				t.Errorf("an entry after a refusal: %v", again)
			}
			if err := x.Abort(); err != nil {
				t.Fatal(err)
			}
			if after := snapshot(t, outer); !maps.Equal(before, after) {
				t.Errorf("outside: %q became %q", before, after)
			}
		})
	}
}

func TestNesting(t *testing.T) {
	x := begin(t, t.TempDir()+"/out", ExtractOptions{})
	path := ""
	var err error
	depth := 0
	for ; err == nil && depth < 1000; depth++ {
		err = x.Dir(path)
		path = strings.TrimPrefix(path+"/d", "/")
	}
	if depth-1 != maxNesting || status.Of(err) != status.BadRequest {
		t.Errorf("stopped after %d directories: %v", depth-1, err)
	}
}

func TestAllowCaseCollisions(t *testing.T) {
	outer := t.TempDir()
	if err := os.WriteFile(outer+"/Probe", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outer + "/probe"); err == nil {
		t.Skip("this file system ignores case")
	}
	x := begin(t, outer+"/out", ExtractOptions{AllowCaseCollisions: true})
	for _, s := range []step{{"d", "", ""}, {"f", "README", "x"}, {"f", "readme", "y"}} {
		if err := s.run(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.File("README", 0, false, strings.NewReader("")); status.Of(err) != status.Conflict {
		t.Errorf("a true duplicate: %v", err)
	}
	// A link that takes another entry's name shows when links are made.
	x = begin(t, outer+"/out", ExtractOptions{AllowCaseCollisions: true})
	for _, s := range []step{{"d", "", ""}, {"l", "a", "."}, {"f", "a", "y"}} {
		if err := s.run(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Commit(); status.Of(err) != status.Conflict || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a link over a file: %v", err)
	}
}

func TestContentMustMatchItsSize(t *testing.T) {
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		r    io.Reader
		size int64
		want status.Outcome
	}{
		"short":  {strings.NewReader("abc"), 4, status.Corrupt},
		"long":   {strings.NewReader("abc"), 2, status.Corrupt},
		"none":   {strings.NewReader("abc"), 0, status.Corrupt},
		"broken": {io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 4, status.Internal},
		"late":   {iotest.ErrReader(status.Errorf(status.Timeout, "no progress")), 4, status.Timeout},
	} {
		outer := t.TempDir()
		x := begin(t, outer+"/out", ExtractOptions{})
		if err := x.Dir(""); err != nil {
			t.Fatal(err)
		}
		err := x.File("a", c.size, false, c.r)
		var named *EntryError
		if status.Of(err) != c.want || !errors.As(err, &named) || named.Entry != "a" {
			t.Errorf("%s: %v", name, err)
		}
		if err := x.Commit(); err == nil {
			t.Errorf("%s: committed", name)
		}
		if err := x.Abort(); err != nil {
			t.Error(err)
		}
		if left := names(t, outer); left != "" {
			t.Errorf("%s: left %s", name, left)
		}
	}
}

func TestSingleFile(t *testing.T) {
	outer := t.TempDir()
	write := func(opts ExtractOptions, content string) error {
		x, err := Begin(outer+"/file", opts)
		if err != nil {
			return err
		}
		if err := x.File("", int64(len(content)), true, strings.NewReader(content)); err != nil {
			return errors.Join(err, x.Abort())
		}
		return errors.Join(x.Commit(), x.Abort())
	}
	if err := write(ExtractOptions{}, "one"); err != nil {
		t.Fatal(err)
	}
	if err := write(ExtractOptions{}, "two"); status.Of(err) != status.Conflict {
		t.Errorf("over an existing file: %v", err)
	}
	if got := snapshot(t, outer)["file"]; got != "-rwxr-xr-x one" {
		t.Errorf("got %q", got)
	}
	if err := write(ExtractOptions{Overwrite: true, Sync: true}, "two"); err != nil {
		t.Error(err)
	}
	if got := snapshot(t, outer); len(got) != 2 || got["file"] != "-rwxr-xr-x two" {
		t.Errorf("got %q", got)
	}
}

// TestTargetInTheWay covers what must not be replaced, before and during an
// extraction.
func TestTargetInTheWay(t *testing.T) {
	for name, there := range map[string]struct {
		make    func(string) error
		regular bool
	}{
		"a directory":      {func(p string) error { return os.Mkdir(p, 0o755) }, false},
		"a full directory": {func(p string) error { return os.MkdirAll(p+"/full", 0o755) }, false},
		"a link":           {func(p string) error { return os.Symlink("elsewhere", p) }, false},
		"a link to a file": {func(p string) error { return os.Symlink("canary", p) }, false},
		"a file":           {func(p string) error { return os.WriteFile(p, []byte("old"), 0o600) }, true},
		"a hard link":      {func(p string) error { return os.Link(filepath.Dir(p)+"/canary", p) }, true},
	} {
		for _, overwrite := range []bool{false, true} {
			for _, first := range []step{{"d", "", ""}, {"f", "", "new"}} {
				replaceable := overwrite && there.regular && first.op == "f"
				outer := t.TempDir()
				if err := os.WriteFile(outer+"/canary", []byte("tweet"), 0o600); err != nil {
					t.Fatal(err)
				}
				late := begin(t, outer+"/out", ExtractOptions{Overwrite: overwrite})
				if err := first.run(late); err != nil {
					t.Fatal(err)
				}
				if err := there.make(outer + "/out"); err != nil {
					t.Fatal(err)
				}
				err := late.Commit()
				if replaceable != (err == nil) || err != nil && status.Of(err) != status.Conflict {
					t.Errorf("%s came meanwhile, %v, overwrite %v: %v", name, first, overwrite, err)
				}
				if err := late.Abort(); err != nil {
					t.Error(err)
				}
				if left := names(t, outer); left != "canary out" {
					t.Errorf("%s: %s", name, left)
				}
				if p, err := os.ReadFile(outer + "/canary"); err != nil || string(p) != "tweet" {
					t.Errorf("%s: the canary holds %q, %v", name, p, err)
				}
				x, err := Begin(outer+"/out", ExtractOptions{Overwrite: overwrite})
				if err == nil {
					err = first.run(x)
					if abort := x.Abort(); abort != nil {
						t.Error(abort)
					}
				}
				if replaceable != (err == nil) || err != nil && status.Of(err) != status.Conflict {
					t.Errorf("%s is there, %v, overwrite %v: %v", name, first, overwrite, err)
				}
			}
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	outer := t.TempDir()
	for target, want := range map[string]status.Outcome{
		"":                     status.BadRequest,
		".":                    status.BadRequest,
		"..":                   status.BadRequest,
		"/":                    status.BadRequest,
		"a/../..":              status.BadRequest,
		outer + "/none/target": status.NotFound,
	} {
		if _, err := Begin(target, ExtractOptions{}); status.Of(err) != want {
			t.Errorf("%q: %v", target, err)
		}
	}
	x := begin(t, outer+"/out/", ExtractOptions{})
	if err := x.Commit(); err == nil {
		t.Error("committed nothing")
	}
	// The temporary name of the longest name is not too long.
	x = begin(t, outer+"/"+strings.Repeat("n", 255), ExtractOptions{})
	if err := errors.Join(x.Dir(""), x.Commit()); err != nil {
		t.Error(err)
	}
}

// TestInterrupted: what a crash leaves behind is hidden beside the target.
func TestInterrupted(t *testing.T) {
	outer := t.TempDir()
	x := begin(t, outer+"/out", ExtractOptions{})
	for _, s := range []step{{"d", "", ""}, {"f", "a", "x"}, {"l", "l", "a"}} {
		if err := s.run(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, outer); !strings.HasPrefix(got, ".out.allium-") || strings.Contains(got, " ") {
		t.Errorf("there is %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x = begin(t, outer+"/file", ExtractOptions{})
	if err := x.Tree(ctx, nil, noContent, fileEntry("x", "x")); status.Of(err) != status.Canceled {
		t.Errorf("canceled: %v", err)
	}
	x = begin(t, outer+"/file", ExtractOptions{})
	if err := x.Tree(t.Context(), nil, noContent, fileEntry("x", "x")); err == nil || !strings.Contains(err.Error(), outer+"/file") {
		t.Errorf("no content: %v", err)
	}
}

// TestLinksStayInside draws trees of directories and links; of those that are
// not refused, no path leads out of the target, as the kernel resolves it.
func TestLinksStayInside(t *testing.T) {
	base := t.TempDir()
	n, made := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		outer := fmt.Sprintf("%s/%d", base, n)
		if err := os.MkdirAll(outer+"/sibling", 0o755); err != nil {
			rt.Fatal(err)
		}
		x, err := Begin(outer+"/out", ExtractOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := x.Abort(); err != nil {
				rt.Error(err)
			}
		}()
		steps := []step{{"d", "", ""}, {"d", "a", ""}, {"d", "a/b", ""}, {"d", "a/b/c", ""}}
		part := rapid.SampledFrom([]string{"..", "..", "a", "b", "c", ".", "l0", "l1", "l2", "l3"})
		dirs := []string{"a/b/c/", "a/b/", "a/", ""} // as they are left
		for i := range 4 {
			steps = append(steps, step{"l", dirs[i] + fmt.Sprintf("l%d", i), strings.Join(rapid.SliceOfN(part, 1, 5).Draw(rt, "target"), "/")})
		}
		for _, s := range steps {
			if s.op == "l" && leadsOut(strings.Count(s.path, "/"), s.arg) {
				continue // refused; the others may still conspire
			}
			if err := s.run(x); err != nil {
				rt.Fatalf("%v: %v", s, err)
			}
		}
		if err := x.Commit(); err != nil {
			rt.Fatal(err)
		}
		for _, s := range steps[4:] {
			real, err := filepath.EvalSymlinks(outer + "/out/" + s.path)
			if err != nil {
				continue // dangling or a loop
			}
			made++
			if real != outer+"/out" && !strings.HasPrefix(real, outer+"/out/") {
				rt.Fatalf("%s leads to %s: %v", s.path, real, steps)
			}
		}
	})
	if made == 0 {
		t.Error("no link led anywhere: the test proves nothing")
	}
}
