package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// tree holds the paths of files, and counts what is asked.
type tree struct {
	files []string
	asked int
	err   error // of every path
}

func (t *tree) Entry(_ context.Context, path []string) (e manifest.Entry, found bool, err error) {
	t.asked++
	at := strings.Join(path, "/")
	if t.err != nil {
		return e, false, t.err
	}
	if slices.Contains(t.files, at) {
		return manifest.Entry{Kind: manifest.File, Name: path[len(path)-1]}, true, nil
	}
	for _, f := range t.files {
		if at == "" || strings.HasPrefix(f, at+"/") {
			return manifest.Entry{Kind: manifest.Directory}, true, nil
		}
	}
	return e, false, nil
}

// rulesOf returns the rules of a site.
func rulesOf(t testing.TB, redirects string, clean bool) *Rules {
	t.Helper()
	r, err := ParseRedirects([]byte(redirects))
	if err != nil {
		t.Fatal(err)
	}
	return &Rules{Redirects: r, Settings: Settings{CleanURLs: clean}}
}

// TestAnswer: what is there comes first, then the rules, then the nearest 404.html.
func TestAnswer(t *testing.T) {
	t.Parallel()
	files := []string{
		"index.html", "about.html", "both.html", "both/x", "docs/index.html", "docs/404.html", "docs/a/b.txt", "list/x",
		"404.html", "gone.html",
	}
	const redirects = "/about /never\n/spa/* / 200\n/dir /docs 200\n/a /b 200\n/b /c 200\n/c /a 200\n" +
		"/self/* /self/:splat 301\n" +
		"/self/* /other\n/gone /gone.html 410\n/law /none 451\n/empty /none 404\n/bad /..%2f.. 200\n/list /docs/ 302\n"
	for _, c := range []struct {
		path  string
		clean bool
		want  string // code, then the entry, the target or "missing"
	}{
		{"/", false, "200 index.html"}, {"/about.html", false, "200 about.html"}, {"/about", true, "200 about.html"},
		{"/about", false, "301 /never"}, {"/both", true, "200 both.html"}, {"/both", false, "200 both/"},
		{"/both/", true, "200 both/"}, {"/docs", false, "200 docs/"}, {"/docs/", false, "200 docs/index.html"},
		{"/list/", false, "302 /docs/"}, {"/list", false, "200 list/"}, {"/about.html/", false, "404 404.html"},
		{"/spa/x/y", false, "200 index.html"}, {"/dir", false, "200 docs/index.html"}, {"/a", false, "404 404.html"},
		{"/self/x", false, "301 /other"}, {"/gone", false, "410 gone.html"}, {"/law", false, "451 missing"},
		{"/empty", false, "404 missing"}, {"/bad", false, "404 404.html"}, {"/x", false, "404 404.html"},
		{"/docs/x", false, "404 docs/404.html"}, {"/docs/a/x/y", false, "404 docs/404.html"},
		{"/docs/a/b.txt/x", false, "404 docs/404.html"}, {"/both", false, "200 both/"},
	} {
		a, err := rulesOf(t, redirects, c.clean).Answer(
			t.Context(), &tree{files: files}, split(c.path), strings.HasSuffix(c.path, "/"))
		got := fmt.Sprint(a.Code, " ", strings.Join(a.Path, "/"))
		switch {
		case a.Redirects():
			got = fmt.Sprint(a.Code, " ", a.To)
		case a.Missing:
			got = fmt.Sprint(a.Code, " missing")
		case a.Entry.Kind == manifest.Directory:
			got += "/"
		}
		if err != nil || got != c.want {
			t.Errorf("%s, clean %t: %s %v, want %s", c.path, c.clean, got, err, c.want)
		}
	}
}

// TestAnswerFails: an error of the tree is no missing page, and rules that lead on and on end.
func TestAnswerFails(t *testing.T) {
	t.Parallel()
	lost := errors.New("nobody has it")
	if _, err := rulesOf(t, "/* /x 200", true).Answer(t.Context(), &tree{err: lost}, nil, true); !errors.Is(err, lost) {
		t.Error(err)
	}
	var chain strings.Builder
	for i := range MaxRules {
		fmt.Fprintf(&chain, "/%d /%d 200\n", i, i+1)
	}
	files := &tree{files: []string{"x"}}
	_, err := rulesOf(t, chain.String(), false).Answer(t.Context(), files, []string{"0"}, false)
	if status.Of(err) != status.HopExceeded || files.asked > 2*maxRewrites+2 {
		t.Errorf("%v, asked %d times", err, files.asked)
	}
	files = &tree{files: []string{strings.Repeat("d/", 500) + "x"}}
	deep := append(slices.Repeat([]string{"d"}, 500), "y")
	a, err := rulesOf(t, "", false).Answer(t.Context(), files, deep, false)
	if err != nil || !a.Missing || files.asked > 2*maxDepth+4 {
		t.Errorf("%+v %v, asked %d times", a, err, files.asked)
	}
}

// TestAnswerEnds: whatever the rules are, an answer is one of the codes of rules, and comes soon.
func TestAnswerEnds(t *testing.T) {
	t.Parallel()
	segment := rapid.SampledFrom([]string{"a", "b", "c", ":x", "*"})
	line := rapid.Custom(func(t *rapid.T) string {
		from := "/" + strings.Join(rapid.SliceOfN(segment, 0, 3).Draw(t, "from"), "/")
		to := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "index.html", ":x", ":splat"}), 0, 3).
			Draw(t, "to"), "/")
		return fmt.Sprintf("%s %s %d", from, to, rapid.SampledFrom([]int{200, 301, 404, 410}).Draw(t, "code"))
	})
	rapid.Check(t, func(t *rapid.T) {
		r := &Rules{Settings: Settings{CleanURLs: rapid.Bool().Draw(t, "clean")}}
		var lines []string
		for _, l := range rapid.SliceOfN(line, 0, 30).Draw(t, "rules") {
			if _, err := ParseRedirects([]byte(l)); err == nil {
				lines = append(lines, l)
			}
		}
		var err error
		if r.Redirects, err = ParseRedirects([]byte(strings.Join(lines, "\n"))); err != nil {
			t.Fatal(err)
		}
		files := &tree{files: []string{"a/index.html", "b/c", "404.html"}}
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "x"}), 0, 4).Draw(t, "path")
		a, err := r.Answer(context.Background(), files, path, rapid.Bool().Draw(t, "slash"))
		switch {
		case status.Of(err) == status.HopExceeded:
		case err != nil || !codes[a.Code] || files.asked > 4*maxRewrites+2*maxDepth:
			t.Fatalf("%+v %v, asked %d times", a, err, files.asked)
		case a.Redirects() && (!strings.HasPrefix(a.To, "/") || strings.HasPrefix(a.To, "//")):
			t.Fatalf("%+v", a)
		}
	})
}

// TestLocation: the query of the request is kept, before a fragment, unless the target has its own.
func TestLocation(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/a": "/a?q=1", "/a?b": "/a?b", "/a#f": "/a?q=1#f", "https://b.example/a?c#f": "https://b.example/a?c#f",
	} {
		if got := (Action{To: to}).Location("q=1"); got != want {
			t.Errorf("%s: %s, want %s", to, got, want)
		}
		if got := (Action{To: to}).Location(""); got != to {
			t.Errorf("%s without a query: %s", to, got)
		}
	}
}

// TestCache: the rules of an address are kept within a bound, and what is wrong with them too.
func TestCache(t *testing.T) {
	t.Parallel()
	registry := limits.NewRegistry(nil)
	c, err := NewCache(registry)
	if err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("line 1")
	at := func(i int) At { return At{Root: b3.Sum(fmt.Append(nil, i)), Path: "docs"} }
	c.Add(at(-1), nil, wrong, 10)
	c.Add(at(-1), &Rules{}, nil, 10) // the first stays
	if _, err, ok := c.Get(at(-1)); !ok || !errors.Is(err, wrong) {
		t.Errorf("%v %t", err, ok)
	}
	for i := range 100 {
		c.Add(at(i), &Rules{}, nil, 2*MaxFile)
	}
	if rules, err, ok := c.Get(at(99)); !ok || err != nil || rules == nil {
		t.Errorf("the newest: %v %v %t", rules, err, ok)
	}
	if _, _, ok := c.Get(at(0)); ok || c.used > cacheBytes || c.used < cacheBytes/2 {
		t.Errorf("the oldest: %t, %d bytes", ok, c.used)
	}
	if _, _, ok := c.Get(At{Root: at(99).Root}); ok {
		t.Error("another path of the root has its rules")
	}
}
