package node_test

import (
	"archive/tar"
	"errors"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"allium/internal/testkit"
	"allium/node/files"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// everyName returns names that together have every byte that a name may have, and some that programs read in a way of
// their own.
func everyName(t *testing.T) (names []string) {
	t.Helper()
	add := func(name string) {
		if manifest.NameProblem(name) == "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for b := rune(1); b < 0x80; b++ {
		add("x" + string(b) + "y")
	}
	// Every lead byte of UTF-8, and every byte that follows one.
	for r := rune(0x80); r < 0x110000; {
		add("u" + string(r))
		add("u" + string(r+0x15)) // in normal form where the first one is not
		switch {
		case r < 0x100:
			r++
		case r < 0x800:
			r += 0x40
		case r < 0x10000:
			r += 0x400
		default:
			r += 0x10000
		}
	}
	for _, name := range []string{
		" ", "\n", "\r\n", "\t", "\\", "-", "--", "~", "%", "%2F", "%00", "%25", "+", "a b", " a ",
		"#", "?", "?a=b", "a?b#c",
		"a&amp;b", "&#43;", "\"'", "<b>", "...", "..a", ".a", "a.", ":", "http:", "b3:00", ";", "=", "*", "$HOME",
		"`id`", "|", "\u202e", "\u200b", "\ufeff", "\ufffd", "\U0010ffff",
		strings.Repeat("n", 255), "index.html2", "@scope",
	} {
		add(name)
	}
	return names
}

// TestEveryName: a file is read back through every door, whatever bytes its name has: the gateway by path and by the
// links of its listing, ls, cat, a tar, and get of the directory.
func TestEveryName(t *testing.T) {
	noLeaks(t)
	defer http.DefaultClient.CloseIdleConnections()
	n := start(t, nil)
	dir := filepath.Join(t.TempDir(), "names")
	want := map[string]string{}
	seen := [256]bool{}
	for _, name := range everyName(t) {
		want[name] = "in " + name
		write(t, filepath.Join(dir, name), []byte(want[name]))
		for _, b := range []byte(name) {
			seen[b] = true
		}
	}
	for b := 1; b < 0xf5; b++ {
		if !seen[b] && b != '/' && b != 0xc0 && b != 0xc1 { // these two are in no UTF-8
			t.Errorf("no name has the byte %#x", b)
		}
	}
	root := add(t, n, dir)[0].Root.String()
	same := func(door string, got map[string]string) {
		t.Helper()
		for name, text := range want {
			if back, ok := got[name]; !ok || back != text {
				t.Errorf("%s: %q is there: %t, and has %q", door, name, ok, back)
			}
		}
		if len(got) > len(want) {
			t.Errorf("%s: %d names of %d", door, len(got), len(want))
		}
	}

	base := n.ID().Gateway + "/b3/" + root + "/"
	page, byPath, byLink := httpText(t, base), map[string]string{}, map[string]string{}
	for name := range want {
		byPath[name] = httpText(t, base+url.PathEscape(name))
	}
	same("a path of the gateway", byPath)
	from, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		to, err := from.Parse(html.UnescapeString(m[1]))
		if err != nil {
			t.Errorf("a link of the listing: %q: %v", m[1], err)
			continue
		}
		name, below := strings.CutPrefix(to.Path, from.Path)
		if below && name != "" && to.RawQuery == "" {
			byLink[name] = httpText(t, to.String())
		}
	}
	same("a link of the listing", byLink)

	listed, byCat := map[string]string{}, map[string]string{}
	for e, err := range n.api.List(t.Context(), root) {
		if err != nil {
			t.Fatal(err)
		}
		listed[e.Name] = want[e.Name]
		s, err := n.api.Cat(t.Context(), root+"/"+e.Name, b3.Range{End: -1})
		if err != nil {
			t.Errorf("cat of %q: %v", e.Name, err)
			continue
		}
		p, err := io.ReadAll(s.Body)
		_ = s.Body.Close() // it was read
		if err != nil {
			t.Errorf("cat of %q: %v", e.Name, err)
		}
		byCat[e.Name] = string(p)
	}
	same("ls", listed)
	same("cat", byCat)

	s, err := n.api.Get(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	same("a tar", tarTexts(t, s.Body))
	if s, err = n.api.Get(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	out := filepath.Join(t.TempDir(), "out")
	if err := files.Extract(s, out, files.ExtractOptions{AllowCaseCollisions: true}, nil); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Files(t, out); !maps.Equal(got, testkit.Files(t, dir)) || len(got) != len(want) {
		t.Errorf("get of the directory: %d files of %d, or others", len(got), len(want))
	}
}

// httpText returns the body of an answer, which must be 200.
func httpText(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", url, resp.Status, err)
	}
	return string(p)
}

// tarTexts returns the files of a tar by their last element.
func tarTexts(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	got := map[string]string{}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		p, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name[strings.LastIndexByte(h.Name, '/')+1:]] = string(p)
	}
}
