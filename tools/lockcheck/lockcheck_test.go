package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

// TestFixtures compares what is found in the packages of testdata with what their comments say.
func TestFixtures(t *testing.T) {
	dirs := must(os.ReadDir("testdata/src/allium"))
	var paths []string
	for _, d := range dirs {
		paths = append(paths, "allium/"+d.Name())
	}
	analysistest.Run(diagnosticsOnly{t}, must(filepath.Abs("testdata")), analyzer, paths...)
}

// diagnosticsOnly does not want the comments of fixtures to list the facts.
type diagnosticsOnly struct{ *testing.T }

func (t diagnosticsOnly) Errorf(format string, args ...any) {
	t.Helper()
	if text := fmt.Sprintf(format, args...); !strings.Contains(text, "unexpected fact") {
		t.Error(text)
	}
}

// TestTree finds nothing in the program, and its mutexes in docs/reference/locks.md.
func TestTree(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks the program")
	}
	all, problems, err := analyze("../..", []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	is, err := os.ReadFile("../../docs/reference/locks.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(is, writeTable(all)) {
		t.Error("docs/reference/locks.md differs from the sources: `make docs` writes it")
	}
	var locks int
	for _, f := range all {
		locks += len(f.locks)
	}
	if declared := mutexesIn(t, "../.."); declared == 0 || locks != declared {
		t.Errorf("%d mutexes were found, of %d", locks, declared)
	}
}

// mutexesIn counts the lines that declare a mutex, in the module whose root is dir.
func mutexesIn(t *testing.T, dir string) (n int) {
	declares := regexp.MustCompile(`(?m)^\s*(?:var )?\w*\s+\*?sync\.(?:RW)?Mutex\b`)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == "bench" || d.Name() == "bin" || d.Name() == ".git"):
			return fs.SkipDir // other modules
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		n += len(declares.FindAll(text, -1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTable writes the page of the locks and exceptions of a fixture, and compares it with the sources.
func TestTable(t *testing.T) {
	t.Setenv("GO111MODULE", "off")
	t.Setenv("GOPATH", must(filepath.Abs("testdata")))
	t.Setenv("GOPROXY", "off")
	page := filepath.Join(t.TempDir(), "locks.md")
	if err := lockcheck("testdata", page, false, []string{"allium/table"}); err != nil {
		t.Fatal(err)
	}
	got := string(must(os.ReadFile(page)))
	for _, row := range []string{
		"## config\n\n| lock | guards | before | held across |\n|---|---|---|---|\n" +
			"| `table.settings.mu` | `a`, `b`, `d` | `counter.mu` | I/O, calls: one \\| two |\n\n## leaf\n",
		"| `table.counter.mu` | n, but not m |  |  |\n",
		"| `(*table.settings).set` | ignore | nobody waits |\n",
		"| `table.now` | computes | it is a clock |\n",
	} {
		if !strings.Contains(got, row) {
			t.Errorf("the page has no\n%s\nit is\n%s", row, got)
		}
	}
	if err := lockcheck("testdata", page, true, []string{"allium/table"}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(page, []byte(got+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lockcheck("testdata", page, true, []string{"allium/table"}); err == nil {
		t.Error("a page that differs from the sources passes")
	}
	if err := lockcheck("testdata", "", false, []string{"allium/held"}); err == nil {
		t.Error("a package with mistakes passes")
	}
	if err := lockcheck("testdata", "", false, []string{"allium/none"}); err == nil {
		t.Error("a package that does not exist passes")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
