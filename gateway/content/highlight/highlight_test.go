package highlight_test

import (
	"strings"
	"testing"

	"allium/gateway/content/highlight"
)

// read returns the parts of a text that have a class, as the letter of the class and the part.
func read(t testing.TB, name, source string) (parts []string) {
	t.Helper()
	s := highlight.NewScanner(highlight.Of(name))
	for line := range strings.SplitSeq(source, "\n") {
		var whole strings.Builder
		s.Line(line, func(class highlight.Class, text string) {
			if text == "" {
				t.Errorf("%q has an empty part", line)
			}
			whole.WriteString(text)
			if class != highlight.Plain {
				parts = append(parts, string(" csnk"[class])+" "+text)
			}
		})
		if whole.String() != line {
			t.Fatalf("%q became %q", line, whole.String())
		}
	}
	return parts
}

func TestLanguages(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"a.go": {"func f() { return \"a\\\"b\" + 'c' + 0x1F } // d", `k func|k return|s "a\"b"|s 'c'|n 0x1F|c // d`},
		"b.go": {"x := `a\nif b` /* c\nd */ var y", "s `a|s if b`|c /* c|c d */|k var"},
		"a.py": {"@x\ndef f(a=1.5e-3): # c\n  '''d\nif''' 'it\\'s'",
			`k @x|k def|n 1.5e-3|c # c|s '''d|s if'''|s 'it\'s'`},
		"a.js":       {"const $if = `a\n${b}`; // c", "k const|s `a|s ${b}`|c // c"},
		"a.c":        {"#include <x>\nint éa = .5f; \"open", `k #include|k int|n .5f|s "open`},
		"a.rs":       {"fn f<'a>(x: &'a str) {}", "k fn|k str"},
		"a.sh":       {"echo \"$A\nb\" $HOME a#b 'c' # d", "s \"$A|s b\"|k $HOME|s 'c'|c # d"},
		"a.sql":      {"SELECT * FROM t -- c\nwhere x='it''s'", `k SELECT|k FROM|c -- c|k where|s 'it'|s 's'`},
		"a.html":     {"<a href=\"x\n>\">it's</a><!-- b\n--> \"c\"", `k a|s "x|s >"|k a|c <!-- b|c -->`},
		"a.json":     {`{"a": [true, -1e+5, null]}`, `s "a"|k true|n 1e+5|k null`},
		"a.yml":      {"a: don't # c\nb: 'd'", "c # c|s 'd'"},
		"a.css":      {"@media x { /* c */ a-b: 'd' }", "k @media|c /* c */|s 'd'"},
		"a.lua":      {"local a -- b\n--[[ c\nd ]] end", "k local|c -- b|c --[[ c|c d ]]|k end"},
		"Makefile":   {"ifdef A # b", "k ifdef|c # b"},
		"Dockerfile": {"FROM a\nfrom b", "k FROM"},
		"a.unknown":  {"if \"a\" 1", ""},
		"README":     {"if", ""},
		"":           {"if", ""},
	} {
		if got := strings.Join(read(t, name, c.source), "|"); got != c.want {
			t.Errorf("%s: %q\n got %s\nwant %s", name, c.source, got, c.want)
		}
	}
}

// names has a file of each kind of rules.
var names = []string{
	"a.go", "a.c", "a.py", "a.js", "a.rs", "a.sh", "a.sql", "a.html", "a.json", "a.yml", "a.css", "a.lua", "a.rb", "a.hs",
	"makefile", "a.php", "a.kt", "a.none",
}

// FuzzScanner: the parts of a line are the line, in every language.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		`"`, `'''`, "/*", "*/", "<!-- <a b='", "--[[", "\\", "`${", "0x.e+", "\xff\"\xc3", "@#$:é", "<<</>", "'\\",
	} {
		f.Add(s + "\n" + s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, name := range names {
			read(t, name, source)
		}
	})
}

// TestHostileLines: lines that make a parser look back are cut into parts like any others.
func TestHostileLines(t *testing.T) {
	for _, name := range names {
		for _, s := range []string{`"`, "'", "/*", "`", "<", "\\", "--[[", "a", "1", "é", "$", "'''", "<a '", "\"\\"} {
			line := strings.Repeat(s, 4096/len(s))
			n := 0
			highlight.NewScanner(highlight.Of(name)).Line(line, func(_ highlight.Class, text string) { n += len(text) })
			if n != len(line) {
				t.Errorf("%s: %q: %d of %d bytes", name, s, n, len(line))
			}
		}
	}
}

func BenchmarkScanner(b *testing.B) {
	for name, s := range map[string]string{
		"code": "\tif err := f(ctx, \"name\", 42); err != nil { // a comment\n", "quotes": "\"\"\"\"'''' /*/*\n",
	} {
		b.Run(name, func(b *testing.B) {
			lines := strings.Split(strings.Repeat(s, (256<<10)/len(s)), "\n")
			b.SetBytes(256 << 10)
			for b.Loop() {
				s, n := highlight.NewScanner(highlight.Of("a.go")), 0
				for _, line := range lines {
					s.Line(line, func(_ highlight.Class, text string) { n += len(text) })
				}
			}
		})
	}
}
