package document

import (
	"slices"
	"testing"
)

// TestEmptyTables: a table is empty that has neither a key nor a table below it.
func TestEmptyTables(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                nil,
		"x = 1":                           nil,
		"[a]":                             {"a"},
		"[a]\nx = 1":                      nil,
		"[a]\n[a.b]":                      {"a.b"},
		"[a.b]\n[a.b.c]\nx = 1\n[ab]":     {"ab"},
		"a.b.c = 1\n[a.d]\n[e]":           {"a.d", "e"},
		"[a]\nb.c = { d = 1 }\n[aa]\n[f]": {"aa", "f"},
	} {
		d, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := EmptyTables(d); !slices.Equal(got, want) {
			t.Errorf("%q has the empty tables %q, want %q", text, got, want)
		}
	}
}
