package allium

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// TestDocumentation checks every link and anchor of every Markdown page, every
// page of docs/ that code, messages and alerts name, that each page can be
// reached from README.md, and the width of lines.
func TestDocumentation(t *testing.T) {
	for _, err := range checkDocumentation(os.DirFS(".")) {
		t.Error(err)
	}
}

// TestDocumentationBites gives the check one mistake of each kind.
func TestDocumentationBites(t *testing.T) {
	tree := fstest.MapFS{
		"README.md": {Data: []byte("# A\n[b](docs/b.md#b-c) " +
			"[r](docs/recipes.md)\n[gone](docs/gone.md)\n[anchor](docs/b.md#none)\n[text][ref]\n`[no](link.md)`\n")},
		"docs/b.md": {Data: []byte("# B: C\n```\n[no](link.md)\n```\n" + strings.Repeat("long ",
			25) + "\n| " + strings.Repeat("long ", 25) + "\n")},
		"docs/alone.md":   {Data: []byte("# Alone\n")},
		"docs/recipes.md": {Data: []byte("# R\nThen `docs/b.md`, `gateway/none.go`.\n")},
		"a.go":            {Data: []byte("// see docs/b.md#b-c and docs/away.md.\n")},
		"docs/ops/a.yml":  {Data: []byte("runbook_url: docs/b.md#nowhere\n")},
	}
	var got []string
	for _, err := range checkDocumentation(tree) {
		got = append(got, err.Error())
	}
	want := []string{
		"README.md:3: docs/gone.md: there is no such file",
		"README.md:4: docs/b.md#none: the page has no such section",
		"README.md:5: [ref]: no link of that name is defined",
		"a.go:1: docs/away.md: there is no such file",
		"docs/alone.md:1: no page leads here from README.md",
		"docs/b.md:5: the line has 124 characters, of 100",
		"docs/ops/a.yml:1: docs/b.md#nowhere: the page has no such section",
		"docs/recipes.md:2: gateway/none.go: there is no such file",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const docsWidth = 100

var (
	inlineLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	namedLink  = regexp.MustCompile(`\]\[([^\]]+)\]`)
	definition = regexp.MustCompile(`^\[([^\]]+)\]: (\S+)`)
	inlineCode = regexp.MustCompile("`[^`]*`")
	docsName   = regexp.MustCompile(`\bdocs/[\w./-]+\.(?:md|yml|json)(?:#[\w-]+)?`)
	codePath   = regexp.MustCompile("`((?:cmd|docs|gateway|internal|node|protocols|resolver|store|testnet)/[\\w./-]+)`")
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// checkDocumentation returns what is wrong with the documentation of a tree, in
// the order of files and lines.
func checkDocumentation(tree fs.FS) (errs []error) {
	texts, err := readTexts(tree)
	if err != nil {
		return []error{err}
	}
	leads := map[string][]string{} // page → the pages that it links
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fail := func(line int, format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s:%d: %s", name, line+1, fmt.Sprintf(format, args...)))
		}
		if path.Ext(name) != ".md" {
			for i, line := range strings.Split(texts[name], "\n") {
				for _, target := range docsName.FindAllString(line, -1) {
					if err := resolves(texts, target); err != nil {
						fail(i, "%v", err)
					}
				}
			}
			continue
		}
		defined := map[string]bool{}
		for _, line := range prose(texts[name]) {
			if m := definition.FindStringSubmatch(line); m != nil {
				defined[m[1]] = true
			}
		}
		for i, line := range prose(texts[name]) {
			var targets []string
			for _, m := range inlineLink.FindAllStringSubmatch(line, -1) {
				targets = append(targets, m[1])
			}
			if m := definition.FindStringSubmatch(line); m != nil {
				targets = append(targets, m[2])
			}
			for _, m := range namedLink.FindAllStringSubmatch(line, -1) {
				if !defined[m[1]] {
					fail(i, "[%s]: no link of that name is defined", m[1])
				}
			}
			for _, target := range targets {
				if u, err := url.Parse(target); err == nil && u.Scheme != "" {
					continue
				}
				file, anchor, _ := strings.Cut(target, "#")
				if file == "" {
					file = name
				} else {
					file = path.Join(path.Dir(name), file)
				}
				if anchor != "" {
					anchor = "#" + anchor
				}
				if err := resolves(texts, file+anchor); err != nil {
					fail(i, "%s", strings.Replace(err.Error(), file+anchor, target, 1))
					continue
				}
				leads[name] = append(leads[name], file)
			}
		}
		if strings.HasSuffix(name, "/recipes.md") { // names files in the order of their changes
			for i, line := range strings.Split(texts[name], "\n") {
				for _, m := range codePath.FindAllStringSubmatch(line, -1) {
					if err := resolves(texts, m[1]); err != nil {
						fail(i, "%v", err)
					}
				}
			}
		}
		if wrapped(name) {
			for i, line := range prose(texts[name]) {
				n := utf8.RuneCountInString(strings.TrimRight(line, " "))
				link := strings.Contains(line, "](") || strings.Contains(line, "://")
				if n > docsWidth && !link && !strings.HasPrefix(line, "|") {
					fail(i, "the line has %d characters, of %d", n, docsWidth)
				}
			}
		}
	}
	reached := map[string]bool{}
	for next := []string{"README.md"}; len(next) > 0; next = next[1:] {
		if !reached[next[0]] {
			reached[next[0]] = true
			next = append(next, leads[next[0]]...)
		}
	}
	for name := range texts {
		if path.Ext(name) == ".md" && strings.HasPrefix(name, "docs/") && !reached[name] {
			errs = append(errs, fmt.Errorf("%s:1: no page leads here from README.md", name))
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int {
		return strings.Compare(strings.SplitN(a.Error(), ":", 2)[0], strings.SplitN(b.Error(), ":", 2)[0])
	})
	return errs
}

// wrapped reports whether the lines of a page keep to docsWidth: those that are
// written by hand and read by users.
func wrapped(name string) bool {
	return name == "README.md" || strings.HasPrefix(name, "docs/") &&
		!strings.HasPrefix(name, "docs/reference/") && !strings.HasPrefix(name, "docs/adr/")
}

// readTexts reads every file that may name a page of the documentation, and
// notes the others and the directories with an empty text.
func readTexts(tree fs.FS) (map[string]string, error) {
	texts := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir():
			texts[name] = ""
			return nil
		}
		texts[name] = ""
		switch path.Ext(name) {
		case ".md", ".go", ".yml", ".mjs", ".txt", ".html":
			if name == "docs_test.go" || name == "words_test.go" {
				return nil // names pages that are missing on purpose
			}
			text, err := fs.ReadFile(tree, name)
			texts[name] = string(text)
			return err
		}
		return nil
	})
	return texts, err
}

// prose returns the lines of a page, with code blocks and code in lines blank.
func prose(page string) []string {
	lines := strings.Split(page, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		switch {
		case fence || fenced || strings.HasPrefix(line, "    "):
			lines[i] = ""
		default:
			lines[i] = inlineCode.ReplaceAllStringFunc(line, func(s string) string {
				return strings.Repeat("x",
					utf8.RuneCountInString(s))
			})
		}
	}
	return lines
}

// resolves says why a file of the tree, with an anchor or without, is not there.
func resolves(texts map[string]string, target string) error {
	file, anchor, _ := strings.Cut(target, "#")
	page, ok := texts[path.Clean(file)]
	if !ok {
		return fmt.Errorf("%s: %w", target, errNoFile)
	}
	if anchor != "" && !slices.Contains(anchorsOf(page), anchor) {
		return fmt.Errorf("%s: %w", target, errNoSection)
	}
	return nil
}

var (
	errNoFile    = errors.New("there is no such file")
	errNoSection = errors.New("the page has no such section")
)

// anchorsOf lists the anchors that a forge makes of a page's headings.
func anchorsOf(page string) (anchors []string) {
	seen := map[string]int{}
	fenced := false
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
		if n := seen[slug]; n > 0 {
			anchors = append(anchors, fmt.Sprintf("%s-%d", slug, n))
		} else {
			anchors = append(anchors, slug)
		}
		seen[slug]++
	}
	return anchors
}
