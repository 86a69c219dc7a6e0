package doctor_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"allium/node/doctor"
)

var update = flag.Bool("update", false, "write the table of checks into the page")

// page is the documentation, which has a table of the checks between two marks.
const (
	page  = "../../docs/running/doctor.md"
	begin = "<!-- checks: `go test ./node/doctor -run Page -update` writes the table -->\n"
	end   = "<!-- end of checks -->\n"
)

// TestPage: the page lists the checks as they are.
func TestPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	was, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatal("the page has no marks for the table")
	}
	var b strings.Builder
	b.WriteString("\n| check | question | needs |\n|---|---|---|\n")
	for _, c := range doctor.Checks() {
		needs := c.Needs
		if needs == "" {
			needs = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, c.Asks, needs)
	}
	b.WriteByte('\n')
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != b.String() {
		t.Errorf("%s does not list the checks as they are: `go test ./node/doctor -run Page -update`", page)
	}
}
