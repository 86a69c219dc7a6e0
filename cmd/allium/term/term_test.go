package term_test

import (
	"testing"

	"allium/cmd/allium/term"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string
		columns int
		want    string
	}{
		"in a pipe":     {"cannot get x: it is gone. Add it again.", 0, "cannot get x: it is gone. Add it again."},
		"it fits":       {"short", 5, "short"},
		"at words":      {"cannot get x: it is gone", 13, "cannot get x:\n  it is gone"},
		"a long word":   {"no abcdefghijklmnop here", 8, "no\n  abcdefghijklmnop\n  here"},
		"each line":     {"one two\nthree four", 6, "one\n  two\nthree\n  four"},
		"indented":      {"  one two three", 9, "  one two\n    three"},
		"only spaces":   {"          ", 4, "          "},
		"wide letters":  {"äöü äöü", 7, "äöü äöü"},
		"one column":    {"a b", 1, "a\n  b"},
		"empty":         {"", 40, ""},
		"not a column":  {"a b", -1, "a b"},
		"double spaces": {"a  b", 80, "a  b"},
	} {
		if got := term.Wrap(c.text, c.columns); got != c.want {
			t.Errorf("%s: Wrap(%q, %d) = %q, want %q", name, c.text, c.columns, got, c.want)
		}
	}
}
