package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write comments.json")

// TestComments compares comments.json with the source. `make docs` writes it.
func TestComments(t *testing.T) {
	c := comments{Words: map[string]string{}, Values: map[string][]string{}}
	for _, dir := range []string{"../api", "../../protocols/answer"} {
		if err := c.readAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	want, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	switch {
	case *update:
		if err := os.WriteFile("comments.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	case !bytes.Equal(want, commentsSource):
		t.Error("comments.json differs from the source; run `make docs`")
	}
}

// readAll reads the comments of source files.
func (c *comments) readAll(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				c.read(d)
			}
		}
	}
	return nil
}

// read keeps what a declaration says.
func (c *comments) read(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			typ, named := spec.Type.(*ast.Ident)
			if d.Tok != token.CONST || !named || len(spec.Values) != 1 {
				continue
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if v, err := strconv.Unquote(lit.Value); err == nil {
					c.Values[typ.Name] = append(c.Values[typ.Name], v)
				}
			}
		case *ast.TypeSpec:
			name := spec.Name.Name
			if !spec.Name.IsExported() {
				continue
			}
			doc := spec.Doc
			if doc == nil {
				doc = d.Doc
			}
			c.Words[name] = sentence(strings.TrimPrefix(doc.Text(), name+" "))
			of, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range of.Fields.List {
				text := sentence(f.Comment.Text())
				for _, id := range f.Names {
					if text == "" {
						text = sentence(strings.TrimPrefix(f.Doc.Text(), id.Name+" "))
					}
					c.Words[name+"."+id.Name] = text
				}
			}
		}
	}
}

// sentence is a comment as one line.
func sentence(comment string) string { return strings.Join(strings.Fields(comment), " ") }
