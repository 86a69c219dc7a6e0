package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"allium/cmd/allium/cli"
)

// TestEmptyLists: an empty list says so on a terminal, and is empty for a program.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	if code, said := inHome(t, home, []string{"init"}); code != 0 {
		t.Fatal(said)
	}
	code, address := inHome(t, home, []string{"add", "-q", "--no-pin", t.TempDir()})
	if code != 0 {
		t.Fatal(address)
	}
	address = strings.TrimSpace(address)
	for said, words := range map[string][]string{
		"no pins; ":              {"pin", "ls"},
		"the directory is empty": {"ls", address},
		"no differences":         {"diff", address, address},
	} {
		for _, c := range []struct {
			columns int
			flags   []string
		}{{columns: 80}, {}, {80, []string{"--json"}}, {80, []string{"-q"}}} {
			var out, errs bytes.Buffer
			a := &cli.App{Streams: cli.Streams{
				Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Columns: c.columns,
			}}
			code := execute(t.Context(), a, append(append([]string{"--home", home}, words...), c.flags...))
			want := ""
			if c.columns > 0 && c.flags == nil {
				want = said
			}
			if code != 0 || !strings.HasPrefix(out.String(), want) || want == "" && out.Len() > 0 || errs.Len() > 0 {
				t.Errorf("%s %s on %d columns: %d, %q, %q", words, c.flags, c.columns, code,
					out.String(), errs.String())
			}
		}
	}
}
