package extract

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

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
		{"a directory that was left", "not a directory",
			[]step{root, {"d", "a", ""}, {"f", "b", ""}, {"f", "a/b", "x"}}},
		{"two targets", "there already", []step{root, {"d", "", ""}}},
		{"a link as the target", "a link alone", []step{{"l", "", "x"}}},

		{"an absolute link", "leads out", []step{root, {"l", "a", "/etc"}}},
		{"a link to the parent", "leads out", []step{root, {"l", "a", ".."}}},
		{"a link to a sibling", "leads out", []step{root, {"l", "a", "../canary"}}},
		{"a link that climbs", "leads out", []step{root, {"d", "a", ""}, {"l", "a/b", "../../canary"}}},
		{"a link that dives and climbs", "leads out", []step{root, {"l", "a", "b/../../canary"}}},
		{"a link over a link", "leads out", []step{
			root, {"d", "a", ""}, {"d", "a/b", ""}, {"l", "a/b/up", "../.."}, {"l", "esc", "a/b/up/../canary"},
		}},
		{"a link over a link below", "leads out", []step{
			root, {"d", "a", ""}, {"d", "a/b", ""}, {"l", "a/b/up", "../.."}, {"l", "a/b/esc", "up/../canary"},
		}},
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
		{"case of directories", `same name as "Src"`,
			[]step{root, {"d", "Src", ""}, {"f", "Src/x", ""}, {"d", "src", ""}}},
		{"case of a link", `same name as "A"`, []step{root, {"l", "A", "."}, {"d", "a", ""}}},
		{"case of a link below", `same name as "A"`, []step{root, {"d", "d", ""}, {"l", "d/A", "."}, {"d", "d/a", ""}}},
		{"case beyond ASCII", `same name as "Ä"`, []step{root, {"f", "Ä", "x"}, {"f", "ä", "y"}}},
		{"folding", `same name as "STRASSE"`, []step{root, {"f", "STRASSE", "x"}, {"f", "straße", "y"}}},
		{"final sigma", `same name as "Σ"`, []step{root, {"f", "Σ", "x"}, {"f", "ς", "y"}}},
		{"long s", `same name as "s"`, []step{root, {"f", "s", "x"}, {"f", "ſ", "y"}}},
		{"decomposition before folding", `same name as "α̣ι"`, []step{
			root, {"f", "α\u0323ι", "x"}, {"f", "ᾳ\u0323", "y"},
		}},
		{"folding then normalisation", `same name as "ΐ"`, []step{root, {"f", "ΐ", "x"}, {"f", "Ϊ́", "y"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := t.TempDir()
			if err := os.WriteFile(outer+"/canary", []byte("tweet"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, outer)
			x := begin(t, outer+"/out", Options{})
			last := len(c.steps) - 1
			for _, s := range c.steps[:last] {
				if err := s.run(x); err != nil {
					t.Fatalf("%v: %v", s, err)
				}
			}
			err := c.steps[last].run(x)
			var named *manifest.EntryError
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
	x := begin(t, t.TempDir()+"/out", Options{})
	path := ""
	var err error
	depth := 0
	for ; err == nil && depth < 1000; depth++ {
		err = x.Dir(path)
		path = strings.TrimPrefix(path+"/d", "/")
	}
	if depth-1 != manifest.MaxNesting || status.Of(err) != status.BadRequest {
		t.Errorf("stopped after %d directories: %v", depth-1, err)
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
		x, err := Begin(outer+"/out", Options{})
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
			target := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(rt, "target"), "/")
			steps = append(steps, step{"l", dirs[i] + fmt.Sprintf("l%d", i), target})
		}
		for _, s := range steps {
			if s.op == "l" && manifest.LeadsOut(s.path, s.arg) {
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
