package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"allium/node/p2p"
)

// TestKeysText: keys.txt has each key of the structs once, and no other; a fixed
// one has a value only where no package has it.
func TestKeysText(t *testing.T) {
	t.Parallel()
	c := Default(p2p.Desktop)
	fields := map[bool]map[string]reflect.Value{false: leaves(c, settable), true: leaves(c, fixed)}
	for _, e := range entries() {
		kind := fields[e.group == fixedGroup]
		_, field := kind[e.key]
		if field == (e.value != "") {
			t.Errorf("%s, below %q: a field: %t, a value %q", e.key, e.group, field, e.value)
		}
		delete(kind, e.key)
		first, _, _ := strings.Cut(e.doc, ". ")
		if len(first) < 10 || len(first) > 110 || !strings.HasSuffix(e.doc, ".") {
			t.Errorf("%s: its text is none, too long a sentence, or without a full stop: %q", e.key, e.doc)
		}
	}
	for _, left := range fields {
		for _, key := range slices.Sorted(maps.Keys(left)) {
			t.Errorf("%s is not in keys.txt", key)
		}
	}
}

// TestFixedFieldsHaveComments reads the packages' source: each field that is
// fixed says what it bounds.
func TestFixedFieldsHaveComments(t *testing.T) {
	t.Parallel()
	dirs := map[string]bool{}
	var find func(typ reflect.Type)
	find = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Tag.Get(fixed) != "" {
				dirs[strings.TrimPrefix(typ.PkgPath(), "allium/")] = true
			}
			if f.Type.Kind() == reflect.Struct {
				find(f.Type)
			}
		}
	}
	find(reflect.TypeFor[Config]())
	n := 0
	for dir := range dirs {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(node ast.Node) bool {
				f, ok := node.(*ast.Field)
				if !ok || f.Tag == nil || !strings.Contains(f.Tag.Value, fixed+`:"`) {
					return true
				}
				n++
				if field := f.Names[0].Name; !strings.HasPrefix(f.Doc.Text(), field+" ") {
					t.Errorf("%s: the comment of %s is none, or does not begin with its name", name, field)
				}
				return true
			})
		}
	}
	if want := len(leaves(Default(p2p.Desktop), fixed)); n != want {
		t.Errorf("%d fields of %d were read", n, want)
	}
}

// TestDecisionListsFixedKeys: the decision has a row for each key that is fixed.
func TestDecisionListsFixedKeys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.FromSlash("../../docs/adr/0023-knobs.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Fixed() {
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", v.Name, quoteEmpty(v.Value),
			v.Doc); !strings.Contains(string(page),
			row) {
			t.Errorf("this row is missing:\n%s", row)
		}
	}
}
