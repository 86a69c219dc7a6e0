package allium

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var shrink = flag.Bool("shrink", false, "lower the figures in "+outOfProportion+" to what is there now")

// outOfProportion lists what is larger than it should be, and how large. The list only shrinks: something new in it
// fails the test, and so does something that has become smaller and still has its old figure (`-shrink` lowers it).
const outOfProportion = "docs/contributing/proportions.txt"

// The largest proportions with which a package fits in a head (ADR 31).
var proportions = map[string]int{
	"lines of package":    4000,
	"files of package":    25,
	"lines of file":       400,
	"methods of type":     20,
	"fields of type":      12,
	"methods of":          10, // an interface
	"long lines of":       0,  // more than 120 columns with tabs of 4; a package
	"packages with name":  1,
	"fields named denied": 8,
}

// nodeLines is the largest number of lines in package node, which composes and does nothing else.
const nodeLines = 6000

// TestProportions holds packages, files and types to their proportions, with the exceptions of outOfProportion.
func TestProportions(t *testing.T) {
	m, err := measure(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if m["lines of package node"] > nodeLines {
		t.Errorf("package node has %d lines, the limit is %d", m["lines of package node"], nodeLines)
	}
	over := m.over()
	list, err := os.ReadFile(outOfProportion)
	if err != nil {
		t.Fatal(err)
	}
	allowed := readFigures(t, list)
	for what, n := range over {
		if most, ok := allowed[what]; !ok || n > most {
			t.Errorf("%s: %d; the limit is %d, and %d in %s", what, n, limitOf(what), most, outOfProportion)
		}
	}
	if *shrink {
		for what, n := range allowed {
			if allowed[what] = min(n, over[what]); allowed[what] == 0 {
				delete(allowed, what)
			}
		}
		if err := os.WriteFile(outOfProportion, allowed.write(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for what, n := range allowed {
		if n > over[what] {
			t.Errorf("%s is no longer %d: `go test . -run Proportions -shrink` lowers it in %s", what, n,
				outOfProportion)
		}
	}
	if !bytes.Equal(allowed.write(), list) {
		t.Errorf("%s is not in order: `go test . -run Proportions -shrink` writes it", outOfProportion)
	}
}

// TestProportionsBites gives the measure one thing of each kind.
func TestProportionsBites(t *testing.T) {
	code := "package x\n\ntype T struct {\n\ta, b int\n\tdeniedPath, other string\n\tsync.Mutex\n}\n\n" +
		"func (t *T) A() {}\nfunc (T) B() {}\n\ntype I interface {\n\tA()\n\tfmt.Stringer\n}\n\n//\t" +
		strings.Repeat("y", 120) + "\n"
	m, err := measure(fstest.MapFS{
		"a/x/x.go":      {Data: []byte(code)},
		"b/x/x.go":      {Data: []byte("package x\n")},
		"a/x/x_test.go": {Data: []byte("package x\n\nfunc (T) C() {}\n")},
		"a/testdata/y":  {Data: []byte("package y\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{
		"lines of package a/x": 17, "files of package a/x": 1, "lines of file a/x/x.go": 17, "methods of type a/x.T": 2,
		"fields of type a/x.T": 5, "methods of a/x.I": 2, "long lines of a/x": 1, "packages with name x": 2,
		"fields named denied": 1,
	} {
		if m[what] != want {
			t.Errorf("%s: %d, not %d", what, m[what], want)
		}
	}
}

// figures are numbers by what they count.
type figures map[string]int

// over returns the figures above their limit.
func (m figures) over() figures {
	over := maps.Clone(m)
	maps.DeleteFunc(over, func(what string, n int) bool { return n <= limitOf(what) })
	return over
}

// limitOf returns the limit of a figure.
func limitOf(what string) int {
	if n, ok := proportions[what]; ok {
		return n
	}
	return proportions[what[:strings.LastIndexByte(what, ' ')]]
}

// write returns the figures as lines, the largest of each kind first.
func (m figures) write() []byte {
	var b bytes.Buffer
	for _, what := range slices.SortedFunc(maps.Keys(m), func(x, y string) int {
		return cmp.Or(cmp.Compare(limitOf(y), limitOf(x)), cmp.Compare(m[y], m[x]), cmp.Compare(x, y))
	}) {
		fmt.Fprintf(&b, "%6d %s\n", m[what], what)
	}
	return b.Bytes()
}

// readFigures reads what write has written.
func readFigures(t *testing.T, p []byte) figures {
	m := figures{}
	for line := range strings.Lines(string(p)) {
		var n int
		if _, err := fmt.Sscan(line, &n); err != nil {
			t.Fatalf("%s: %q: %v", outOfProportion, line, err)
		}
		_, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[what] = n
	}
	return m
}

// measure counts what stands in the product's files, those of tests and generated ones aside.
func measure(tree fs.FS) (figures, error) {
	m := figures{}
	names := map[string]bool{}
	err := eachText(tree, func(name string, text []byte) error {
		if path.Ext(name) != ".go" || strings.HasPrefix(name, "tools/") || generated(text) {
			return nil // eachText leaves out tests
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if base := path.Base(dir); !names[dir] && base != "model" { // a model stands beside what it models
			names[dir] = true
			m["packages with name "+base]++
		}
		lines := bytes.Count(text, []byte("\n"))
		m["lines of package "+dir] += lines
		m["files of package "+dir]++
		m["lines of file "+name] = lines
		for line := range strings.Lines(string(text)) {
			if columns(strings.TrimSuffix(line, "\n")) > 120 {
				m["long lines of "+dir]++
			}
		}
		m.declarations(dir, f)
		return nil
	})
	return m, err
}

// generated reports whether a program has written the file.
func generated(text []byte) bool {
	return bytes.HasPrefix(text, []byte("// Code generated ")) || bytes.Contains(text, []byte("\n// Code generated "))
}

// columns returns the width of a line with tabs of 4.
func columns(line string) (n int) {
	for _, r := range line {
		if n++; r == '\t' {
			n += (4 - n%4) % 4
		}
	}
	return n
}

// declarations counts the methods, fields and interfaces of a file.
func (m figures) declarations(dir string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				m["methods of type "+dir+"."+receiver(d.Recv.List[0].Type)]++
			}
		case *ast.TypeSpec:
			switch of := d.Type.(type) {
			case *ast.StructType:
				m["fields of type "+dir+"."+d.Name.Name] = of.Fields.NumFields()
			case *ast.InterfaceType:
				m["methods of "+dir+"."+d.Name.Name] = of.Methods.NumFields()
			}
		case *ast.StructType:
			m["fields named denied"] += denied(d)
		}
		return true
	})
}

// denied returns the number of fields of s that are named after a refusal.
func denied(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			if strings.HasPrefix(strings.ToLower(name.Name), "denied") {
				n++
			}
		}
	}
	return n
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
