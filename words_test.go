package allium

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// metaphors are words that once named things here and had to be explained. A
// name of the field says it: fair queue, commit batch, reservation, span, waiter.
var metaphors = words("aloft ripe rota rotas lane lanes booking bookings doubted doubts takeoff")

// metaphorsInNames are everyday words in a sentence, but riddles as a name.
var metaphorsInNames = words("room rooms pace paces paced aheads turns followed")

// riddle matches the beginning of a doc comment that does not say what the thing is: "X is what …", "X is how long …".
var riddle = regexp.MustCompile(
	`(?m)^\t?// (?:Package )?\w+(?: and \w+)? (?:is|are) (?:for |by )?(?:what|who|how|where|which)\b.*`)

// TestRiddles holds riddles out of doc comments. A doc comment says what its thing does, or is.
func TestRiddles(t *testing.T) {
	if !riddle.MatchString("x\n// wait is how long a caller waits.\n") ||
		riddle.MatchString("// wait is the time that a caller waits.") {
		t.Fatal("the pattern does not know a riddle")
	}
	err := eachText(os.DirFS("."), func(name string, text []byte) error {
		if path.Ext(name) == ".go" {
			for _, at := range riddle.FindAllIndex(text, -1) {
				t.Errorf("%s: %s", position(name, 1+strings.Count(string(text[:at[0]]), "\n")), text[at[0]:at[1]])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exceptions are names that stay, each with its reason. The list only shrinks:
// an exception that nothing needs fails the test.
var exceptions = map[string]string{}

// TestWords holds metaphors out of identifiers, messages, help, documentation
// and generated pages. Tests may call things as they like.
func TestWords(t *testing.T) {
	unused := map[string]bool{}
	for name := range exceptions {
		unused[name] = true
	}
	found, err := metaphorsIn(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if _, ok := exceptions[f.name]; ok {
			delete(unused, f.name)
			continue
		}
		t.Errorf("%s: %q says %q; see the glossary for the field's word", f.where, f.name, f.word)
	}
	for name := range unused {
		t.Errorf("nothing is called %s any more: take it from the exceptions", name)
	}
}

// TestWordsBites gives the search one metaphor in each kind of place.
func TestWordsBites(t *testing.T) {
	tree := fstest.MapFS{
		"a/a.go":      {Data: []byte("package a\n\nfunc makeRoom() string { return \"every lane is full\" }\n")},
		"a/a_test.go": {Data: []byte("package a\n\nvar rota = 1\n")},
		"docs/b.md":   {Data: []byte("# B\n\nThe booking is ripe.\n")},
		"c.html":      {Data: []byte("<p>No room is left in this lane</p>\n")},
	}
	found, err := metaphorsIn(tree)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.where+" "+f.word)
	}
	want := "a/a.go:3 room, a/a.go:3 lane, c.html:1 lane, docs/b.md:3 booking, docs/b.md:3 ripe"
	if strings.Join(got, ", ") != want {
		t.Errorf("found %s\nwant  %s", strings.Join(got, ", "), want)
	}
}

// A metaphor is a word of a name or of a text.
type metaphor struct{ where, name, word string }

func metaphorsIn(tree fs.FS) (found []metaphor, err error) {
	return found, eachText(tree, func(name string, text []byte) error {
		switch path.Ext(name) {
		case ".go":
			more, err := metaphorsInCode(name, text)
			found = append(found, more...)
			return err
		case ".md", ".html", ".yml", ".mjs", ".json", ".txt":
			for i, line := range strings.Split(string(text), "\n") {
				found = append(found, metaphorsInText(position(name, i+1), line)...)
			}
		}
		return nil
	})
}

// eachText calls f for each file of the project but tests, what they read, and what is made or fetched.
func eachText(tree fs.FS, f func(name string, text []byte) error) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || d.Name() == "node_modules" || d.Name() == "testdata" ||
			name == "docs/adr"):
			return fs.SkipDir // decisions keep the words of their day
		case d.IsDir() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return f(name, text)
	})
}

// metaphorsInCode looks at the identifiers and the strings of a file.
func metaphorsInCode(name string, text []byte) (found []metaphor, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			for _, word := range wordsOf(n.Name) {
				if metaphors[word] || metaphorsInNames[word] {
					found = append(found, metaphor{position(name, files.Position(n.Pos()).Line), n.Name, word})
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				found = append(found, metaphorsInText(position(name, files.Position(n.Pos()).Line), n.Value)...)
			}
		}
		return true
	})
	return found, nil
}

var textWord = regexp.MustCompile(`[A-Za-z]+`)

func metaphorsInText(where, text string) (found []metaphor) {
	for _, word := range textWord.FindAllString(text, -1) {
		if metaphors[strings.ToLower(word)] {
			found = append(found, metaphor{where, word, strings.ToLower(word)})
		}
	}
	return found
}

// wordsOf splits an identifier where its case changes: makeRoom is make, room.
func wordsOf(name string) (all []string) {
	start := 0
	for i, r := range name {
		if i > start && (unicode.IsUpper(r) || r == '_') {
			all, start = append(all, strings.ToLower(strings.Trim(name[start:i], "_"))), i
		}
	}
	return append(all, strings.ToLower(strings.Trim(name[start:], "_")))
}

func position(name string, line int) string { return name + ":" + strconv.Itoa(line) }

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(list) {
		set[word] = true
	}
	return set
}
