package extract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

func begin(t testing.TB, target string, opts Options) *Extractor {
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

// extract writes the directory root as the target.
func extract(
	ctx context.Context, x *Extractor, get manifest.Getter,
	open func(context.Context, manifest.Entry) (io.Reader, error), root b3.Root,
) error {
	if err := x.Dir(""); err != nil {
		return err
	}
	return manifest.Walk(ctx, get, root, func(path string, e manifest.Entry) error {
		switch e.Kind {
		case manifest.Directory:
			return x.Dir(path)
		case manifest.Link:
			return x.Symlink(path, e.Target)
		}
		r, err := open(ctx, e)
		if err != nil {
			return err
		}
		return x.File(path, e.Size, e.Executable, r)
	})
}

// content opens a file that is among the objects.
func (o objects) content(ctx context.Context, e manifest.Entry) (io.Reader, error) {
	p, err := o.get(ctx, e.Root)
	return bytes.NewReader(p), err
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
	for _, opts := range []Options{{}, {Sync: true}, {AllowCaseCollisions: true}} {
		o := objects{}
		file := func(name, s string) manifest.Entry {
			o[b3.Sum([]byte(s))] = []byte(s)
			return fileEntry(name, s)
		}
		run := file("run", "#!/bin/sh\n")
		run.Executable = true
		empty, emptySize := build(t, o.put, nil)
		sub, subSize := build(t, o.put, []manifest.Entry{
			file("a", "in sub"),
			{Name: "empty", Kind: manifest.Directory, Root: empty, Size: emptySize},
			{Name: "up", Kind: manifest.Link, Target: "../run"},
		})
		// a file all the same
		document := manifest.Entry{Name: "manifest", Kind: manifest.File, Root: sub, Size: subSize}
		root, _ := build(t, o.put, []manifest.Entry{
			{Name: "dangling", Kind: manifest.Link, Target: "./no/such//file"},
			{Name: "here", Kind: manifest.Link, Target: "."},
			document,
			run,
			{Name: "sub", Kind: manifest.Directory, Root: sub, Size: subSize},
			{Name: "sub2", Kind: manifest.Directory, Root: sub, Size: subSize},
			file("zero", ""),
		})
		parent := t.TempDir()
		x := begin(t, parent+"/out", opts)
		if err := extract(t.Context(), x, o.get, o.content, root); err != nil {
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

func TestAllowCaseCollisions(t *testing.T) {
	outer := t.TempDir()
	if err := os.WriteFile(outer+"/Probe", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outer + "/probe"); err == nil {
		t.Skip("this file system ignores case")
	}
	x := begin(t, outer+"/out", Options{AllowCaseCollisions: true})
	for _, s := range []step{{"d", "", ""}, {"f", "README", "x"}, {"f", "readme", "y"}} {
		if err := s.run(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.File("README", 0, false, strings.NewReader("")); status.Of(err) != status.Conflict {
		t.Errorf("a true duplicate: %v", err)
	}
	// A link that takes another entry's name shows when links are made.
	x = begin(t, outer+"/out", Options{AllowCaseCollisions: true})
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
		x := begin(t, outer+"/out", Options{})
		if err := x.Dir(""); err != nil {
			t.Fatal(err)
		}
		err := x.File("a", c.size, false, c.r)
		var named *manifest.EntryError
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
	write := func(opts Options, content string) error {
		x, err := Begin(outer+"/file", opts)
		if err != nil {
			return err
		}
		if err := x.File("", int64(len(content)), true, strings.NewReader(content)); err != nil {
			return errors.Join(err, x.Abort())
		}
		return errors.Join(x.Commit(), x.Abort())
	}
	if err := write(Options{}, "one"); err != nil {
		t.Fatal(err)
	}
	if err := write(Options{}, "two"); status.Of(err) != status.Conflict {
		t.Errorf("over an existing file: %v", err)
	}
	if got := snapshot(t, outer)["file"]; got != "-rwxr-xr-x one" {
		t.Errorf("got %q", got)
	}
	if err := write(Options{Overwrite: true, Sync: true}, "two"); err != nil {
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
				late := begin(t, outer+"/out", Options{Overwrite: overwrite})
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
				x, err := Begin(outer+"/out", Options{Overwrite: overwrite})
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
		if _, err := Begin(target, Options{}); status.Of(err) != want {
			t.Errorf("%q: %v", target, err)
		}
	}
	x := begin(t, outer+"/out/", Options{})
	if err := x.Commit(); err == nil {
		t.Error("committed nothing")
	}
	// The temporary name of the longest name is not too long.
	x = begin(t, outer+"/"+strings.Repeat("n", 255), Options{})
	if err := errors.Join(x.Dir(""), x.Commit()); err != nil {
		t.Error(err)
	}
}

// TestInterrupted: what a crash leaves behind is hidden beside the target.
func TestInterrupted(t *testing.T) {
	outer := t.TempDir()
	x := begin(t, outer+"/out", Options{})
	for _, s := range []step{{"d", "", ""}, {"f", "a", "x"}, {"l", "l", "a"}} {
		if err := s.run(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, outer); !strings.HasPrefix(got, ".out.allium-") || strings.Contains(got, " ") {
		t.Errorf("there is %q", got)
	}
}
