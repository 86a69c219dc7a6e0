package printable_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"allium/internal/printable"
)

func TestName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want string }{
		{"plain.txt", "plain.txt"},
		{"café 中文 🙂 a b", "café 中文 🙂 a b"},
		{"invoice\u202efdp.exe", `invoice\u202efdp.exe`},
		{"a\u2066b\u2069", `a\u2066b\u2069`},
		{"zero\u200bwidth\ufeff\u00ad", `zero\u200bwidth\ufeff\u00ad`},
		{"red\x1b[31m", `red\x1b[31m`},
		{"two\nlines\tand\r", `two\nlines\tand\r`},
		{"\u009b2J\x7f", `\u009b2J\x7f`},
		{"no utf\xff", `no utf\xff`},
		{`a\u202eb`, `a\\u202eb`},
		{"tag\U000e0041", `tag\U000e0041`},
		{"\u3164", `\u3164`},
		{"\ufffd", "\ufffd"},
		{"", ""},
	} {
		if got := printable.Name(c.name); got != c.want {
			t.Errorf("%q: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := printable.Text("one \"a\\u202e\"\n\ttwo\x1b[2J\u202e"); got != "one \"a\\u202e\"\n\ttwo\\x1b[2J\\u202e" {
		t.Errorf("text became %s", got)
	}
}

// TestNamesStayApart: two names that differ look different, and no name has a
// character that the terminal acts on.
func TestNamesStayApart(t *testing.T) {
	t.Parallel()
	odd := rapid.StringOf(rapid.SampledFrom([]rune{'a', '\\', 'x', 'u', '2', '0', 'e', '\n',
		0x1b, 0x202e, 0x200b, 0xfeff,
		0x9b, utf8.RuneError}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := odd.Draw(t, "a"), odd.Draw(t, "b")
		if (a == b) != (printable.Name(a) == printable.Name(b)) {
			t.Fatalf("%q and %q both show as %s", a, b, printable.Name(a))
		}
		if strings.ContainsFunc(printable.Name(a), func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) {
			t.Fatalf("%q shows as %q", a, printable.Name(a))
		}
	})
}
