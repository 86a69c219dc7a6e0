package name

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"allium/protocols/status"
)

func TestParseLabel(t *testing.T) {
	for in, want := range map[string]string{
		"blog":                  "blog",
		"Blog":                  "blog",
		"ＢＬＯＧ":                  "blog",      // full width
		"Bu\u0308cher":          "bücher",    // decomposed
		"xn--bcher-kva":         "bücher",    // Punycode
		"straße":                "straße",    // no transitional mapping
		"STRAẞE":                "straße",    // the capital of ß, not "ss"
		"STRASSE":               "strasse",   //
		"xn--strae-oqa":         "straße",    //
		"a1-b2":                 "a1-b2",     //
		"42":                    "42",        //
		"привет":                "привет",    //
		"東京タワーのあか":              "東京タワーのあか",  // Han, Katakana and Hiragana
		"한국漢字":                  "한국漢字",      //
		"ㄅㄆ漢":                   "ㄅㄆ漢",       //
		"二〇二六":                  "二〇二六",      //
		"नमस्ते":                "नमस्ते",    // with marks
		"क्\u200dष":             "क्\u200dष", // a joiner after a virama
		"שלום":                  "שלום",      // right to left
		"so\u00adft":            "soft",      // a soft hyphen is ignored
		strings.Repeat("a", 63): strings.Repeat("a", 63),
		strings.Repeat("Ａ", 63): strings.Repeat("a", 63),
	} {
		if got, err := ParseLabel(in); err != nil || got.String() != want {
			t.Errorf("%q is %q, %v, not %q", in, got, err, want)
		}
	}
}

func TestParseLabelRefuses(t *testing.T) {
	for in, want := range map[string]LabelProblem{
		"":                         Empty,
		"\u00ad":                   Empty,
		strings.Repeat("a", 64):    TooLong,
		strings.Repeat("ü", 32):    TooLong,
		strings.Repeat("a", 10000): TooLong,
		"a b":                      BadChar,
		"a/b":                      BadChar,
		"a\x00b":                   BadChar,
		"a\x1b[2Jb":                BadChar,
		"a_b":                      BadChar,
		"*":                        BadChar,
		"☃":                        BadChar,
		"😀":                        BadChar,
		"\xff":                     BadChar,
		"a\u202eb":                 BadChar, // right-to-left override
		"..":                       HasDot,
		"a.b":                      HasDot,
		"a。b":                      HasDot, // mapped to a dot
		"-a":                       BadForm,
		"a-":                       BadForm,
		"ab--c":                    BadForm,
		"xn--a":                    BadForm,
		"xn--abc-":                 BadForm,
		"\u0308a":                  BadForm, // begins with a mark
		"a\u200db":                 BadForm, // a joiner between letters that do not join
		"aש":                       BadForm, // both directions
		"pаypal":                   Mixed,   // the first а is Cyrillic
		"blogя":                    Mixed,
		"tokyo東京":                  Mixed,
		"ひ한":                       Mixed,
		"αb":                       Mixed,
	} {
		_, err := ParseLabel(in)
		var bad *LabelError
		if !errors.As(err, &bad) || bad.Problem != want || status.Of(err) != status.BadAddress {
			t.Errorf("%.20q: %v, want %s", in, err, want)
			continue
		}
		if text := bad.Error(); len(text) > 400 || !utf8.ValidString(text) {
			t.Errorf("%.20q: the message has %d bytes", in, len(text))
		}
	}
}

// unicodeVersion is the version of the table of confusable characters. It is that of Go's own
// tables and of those of UTS #46. A node with other tables can disagree only about labels with
// characters that one of the versions does not have.
const unicodeVersion = "15.0.0"

// TestTables: all tables are of one Unicode version. When it fails after a change of Go or of
// x/net, write the table anew (tools/confusables).
func TestTables(t *testing.T) {
	if unicode.Version != unicodeVersion || idna.UnicodeVersion != unicodeVersion || norm.Version != unicodeVersion {
		t.Errorf("Unicode %s, idna %s, norm %s; the confusables are of %s",
			unicode.Version, idna.UnicodeVersion, norm.Version, unicodeVersion)
	}
	if !strings.Contains(confusablesText, "\n# unicode "+unicodeVersion+"\n") {
		t.Errorf("the table is not of Unicode %s", unicodeVersion)
	}
	lines := 0
	for line := range strings.Lines(confusablesText) {
		if !strings.HasPrefix(line, "#") {
			lines++
		}
	}
	table := confusables()
	if len(table) != lines || lines < 1000 {
		t.Errorf("%d characters on %d lines", len(table), lines)
	}
	for source, target := range table {
		if target == "" || !utf8.ValidRune(source) || !norm.NFD.IsNormalString(target) {
			t.Errorf("%U becomes %q", source, target)
		}
	}
}

func TestSpellings(t *testing.T) {
	var s Spellings
	for _, l := range []string{"paypal", "modern", "blog", "cocoa", "paypal", "straße", "mañana", "東京"} {
		if err := s.Add(label(t, l)); err != nil {
			t.Fatal(err)
		}
	}
	for in, with := range map[string]string{
		"paypa1": "paypal",
		"сосоа":  "cocoa", // Cyrillic in whole
		"modem":  "modern",
		"bl0g":   "", // 0 looks like a capital O
		"b1og":   "blog",
		"manana": "",
		"京東":     "",
	} {
		err := s.Add(label(t, in))
		var bad *ConfusableError
		switch {
		case with == "" && err != nil:
			t.Errorf("%s: %v", in, err)
		case with != "" && (!errors.As(err, &bad) || bad.With.String() != with || status.Of(err) != status.Conflict):
			t.Errorf("%s: %v, want the conflict with %s", in, err, with)
		}
	}
}

// letters generates characters that normalising, scripts and skeletons treat differently.
func letters() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.OneOf(
		rapid.RuneFrom([]rune("abcABCilmno019-. ßẞüÜѕаӏ東かカ한ㄅשأनम्\u0301\u0308\u200d\u200cﬁＡ①ſıİ")),
		rapid.Rune(),
	), 1, 20, -1)
}

// TestNormalForm: a label is its own normal form, and its decomposed text is the same label.
func TestNormalForm(t *testing.T) {
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		l, err := ParseLabel(letters().Draw(t, "text"))
		if err != nil {
			return
		}
		valid++
		checkLabel(t, l)
		if again, err := ParseLabel(norm.NFD.String(l.s)); err == nil && again != l {
			t.Errorf("%q decomposed is %q", l, again)
		}
	})
	if valid == 0 {
		t.Error("no text was a label")
	}
}

// checkLabel fails unless l is as [Label] says.
func checkLabel(t interface{ Errorf(string, ...any) }, l Label) {
	for name, parse := range map[string]func(string) (Label, error){"ParseLabel": ParseLabel, "parseLabel": parseLabel} {
		if again, err := parse(l.s); err != nil || again != l {
			t.Errorf("%s: %q becomes %q, %v", name, l.s, again.s, err)
		}
	}
	if len(l.s) == 0 || len(l.s) > MaxLabel || strings.ContainsAny(l.s, "./\x00 ") || !utf8.ValidString(l.s) ||
		!norm.NFC.IsNormalString(l.s) || lower(l.s) != l.s {
		t.Errorf("%q is a label", l.s)
	}
	if skeleton := Skeleton(l); skeleton == "" || !norm.NFD.IsNormalString(skeleton) {
		t.Errorf("the skeleton of %q is %q", l.s, skeleton)
	}
}

// lower returns s in lower case, but for Cherokee, whose letters Unicode folds to upper case.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cherokee, r) {
			return r
		}
		return unicode.ToLower(r)
	}, s)
}
