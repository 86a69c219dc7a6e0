package extract

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// contents are those of genChild's files.
var contents = func() map[b3.Root]string {
	m := map[b3.Root]string{}
	for _, s := range []string{"", "x", "yy"} {
		m[b3.Sum([]byte(s))] = s
	}
	return m
}()

// updateTo brings dir to e and returns what it did.
func updateTo(t testing.TB, o objects, e manifest.Entry, dir string, opts UpdateOptions) (UpdateStats, error) {
	t.Helper()
	u, err := BeginUpdate(dir, opts)
	if err != nil {
		return UpdateStats{}, err
	}
	defer u.Close()
	type need struct {
		path string
		e    manifest.Entry
	}
	var needed []need
	err = manifest.Diff(t.Context(), o.get, manifest.Entry{}, e, func(path string, _, next *manifest.Entry) error {
		wanted, err := u.Entry(path, *next)
		if wanted {
			needed = append(needed, need{path, *next})
		}
		return err
	})
	if err != nil {
		return u.Stats(), err
	}
	for _, n := range needed {
		if err := u.File(n.path, n.e, strings.NewReader(contents[n.e.Root])); err != nil {
			return u.Stats(), err
		}
	}
	err = u.Finish()
	return u.Stats(), err
}

// treeOnDisk lists a directory as plan.flat does.
func treeOnDisk(t testing.TB, dir string) map[string]manifest.Entry {
	t.Helper()
	found := map[string]manifest.Entry{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(dir, name)
		if path == "." {
			path = ""
		}
		switch d.Type() {
		case fs.ModeDir:
			found[path] = manifest.Entry{Kind: manifest.Directory}
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			found[path] = manifest.Entry{Kind: manifest.Link, Target: target}
			return err
		default:
			p, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			found[path] = manifest.Entry{
				Kind: manifest.File, Root: b3.Sum(p), Size: int64(len(p)), Executable: info.Mode()&0o111 != 0,
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestUpdated: whatever was there, an update with Delete makes it the tree, and
// a second one finds nothing to do.
func TestUpdated(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	rapid.Check(t, func(rt *rapid.T) {
		o := objects{}
		p := genPlan(2).Draw(rt, "tree")
		for range 2 {
			want := map[string]manifest.Entry{}
			p.flat("", want)
			opts := UpdateOptions{Delete: true}
			if _, err := updateTo(t, o, p.write(t, o), dir, opts); err != nil {
				rt.Fatal(err)
			}
			if got := treeOnDisk(t, dir); !maps.Equal(got, want) {
				rt.Fatalf("got %v, want %v", got, want)
			}
			again, err := updateTo(t, o, p.write(t, o), dir, opts)
			if err != nil || again.Written != 0 || again.Removed != 0 {
				rt.Fatalf("the second time: %+v, %v", again, err)
			}
			p = p.changed(rt, 2)
		}
	})
}

// TestUpdateRefuses: what is wrong with a tree or its content changes nothing
// outside the target, and nothing that is there.
func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	e := fileEntry("f", "x")
	for name, c := range map[string]struct {
		path    string
		entry   manifest.Entry
		content string
		want    status.Outcome
	}{
		"wrong content": {"f", e, "y", status.Corrupt},
		"short content": {"f", e, "", status.Corrupt},
		"long content":  {"f", e, "xx", status.Corrupt},
		"up":            {"../f", e, "x", status.BadRequest},
		"absolute":      {"/f", e, "x", status.BadRequest},
		"no directory":  {"no/f", e, "x", status.BadRequest},
		"link out": {"l", manifest.Entry{Name: "l", Kind: manifest.Link, Target: "../canary"}, "",
			status.BadRequest},
		"case": {"F", manifest.Entry{Name: "F", Kind: manifest.File, Root: e.Root, Size: 1}, "x",
			status.OK},
		"directory in way": {"d", fileEntry("d", "x"), "x", status.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			dir := filepath.Join(top, "out")
			mustDo(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
			mustDo(t, os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o644))
			mustDo(t, os.WriteFile(filepath.Join(top, "canary"), []byte("c"), 0o644))
			u, err := BeginUpdate(dir, UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			if _, err := u.Entry("", manifest.Entry{Kind: manifest.Directory}); err != nil {
				t.Fatal(err)
			}
			need, err := u.Entry(c.path, c.entry)
			if err == nil && need {
				err = u.File(c.path, c.entry, strings.NewReader(c.content))
			}
			if status.Of(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			p, err := os.ReadFile(filepath.Join(dir, "f"))
			if err != nil || c.want != status.OK && !bytes.Equal(p, []byte("old")) {
				t.Errorf("%q, %v", p, err)
			}
			if names, err := os.ReadDir(top); err != nil || len(names) != 2 {
				t.Errorf("%v, %v", names, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*.allium-*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestUpdateCase: names that are one where case is ignored.
func TestUpdateCase(t *testing.T) {
	t.Parallel()
	o := objects{}
	root, size := build(t, o.put, []manifest.Entry{fileEntry("A", "x"), fileEntry("a", "yy")})
	e := manifest.Entry{Kind: manifest.Directory, Root: root, Size: size}
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := updateTo(t, o, e, dir, UpdateOptions{}); status.Of(err) != status.Conflict {
		t.Errorf("%v", err)
	}
	if s, err := updateTo(t, o, e, dir, UpdateOptions{AllowCaseCollisions: true}); err != nil || s.Written+s.Kept != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
