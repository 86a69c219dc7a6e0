package markdown_test

import (
	"errors"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"allium/gateway/content/markdown"
)

func renderer() *markdown.Renderer {
	return markdown.New(func(name string) string { return "?view=" + name })
}

func TestRender(t *testing.T) {
	r := renderer()
	for src, want := range map[string]string{
		"# A *title*\n\n# A title": "<h1 id=\"md-a-title\">A <em>title</em></h1>\n" +
			"<h1 id=\"md-a-title-1\">A title</h1>\n",
		"[a](b.md#c) [d](#e) [f](dir/)": `<p><a href="b.md?view=b.md#md-c" rel="nofollow noreferrer">a</a> ` +
			`<a href="#md-e" rel="nofollow noreferrer">d</a> <a href="dir/" rel="nofollow noreferrer">f</a></p>` + "\n",
		"[a](x?y=1) [b](https://a.example/b)": `<p><a href="x?y=1" rel="nofollow noreferrer">a</a> <a href="https://a.example/b" rel="nofollow noreferrer">b</a></p>` + "\n",
		"![a](p/b.png) ![c](../d.png)": `<p><img src="p/b.png" alt="a"> ` +
			`<img src="../d.png" alt="c"></p>` + "\n",
		"![a](//x/b) ![c](http://x/d) ![e](/f)":   `<p><img alt="a"> <img alt="c"> <img alt="e"></p>` + "\n",
		"[a](javascript:b) [c](data:text/html,d)": "<p>a c</p>\n",
		"<b onclick=x class=y style=z id=w>a</b>": "<p><b>a</b></p>\n",
		"<svg><use href=x></svg><math>y</math>":   "<p>y</p>\n",
		"- [ ] a\n- [x] b": "<ul>\n<li>☐ a</li>\n<li>☑ " +
			"b</li>\n</ul>\n",
		"|a|b|\n|-|:-:|\n|c|d|": "",
		"<script>x</script><style>y</style>\n\n<iframe src=z></iframe>": "\n",
	} {
		got, err := r.Render([]byte(src))
		if err != nil || want != "" && string(got) != want {
			t.Errorf("%q: %v\n got %q\nwant %q", src, err, got, want)
		}
	}
}

// hostile are texts that a parser of Markdown needs quadratic time for. Each is repeated.
var hostile = map[string]string{
	"links": "[](", "open links": "[a](", "brackets": "[", "images": "![", "emphasis": "*a_ ", "ticks": "`a``b",
	"tags":   "<a ",
	"quotes": "> ", "bullets": "- ", "numbers": "1. ", "destinations": "[a](<b",
}

// TestTooComplex: what would take long is refused, and ordinary texts of the same length are not.
func TestTooComplex(t *testing.T) {
	r := renderer()
	fill := func(s string) []byte { return []byte(strings.Repeat(s, markdown.MaxSource/len(s))) }
	for name, s := range hostile {
		if _, err := r.Render(fill(s)); !errors.Is(err, markdown.ErrTooComplex) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wide := "|" + strings.Repeat("a|", 8000) + "\n|" + strings.Repeat("-|", 8000) + "\n" + strings.Repeat("a\n", 2000)
	long := make([]byte, markdown.MaxSource+1)
	for name, src := range map[string][]byte{"cells": []byte(wide), "definitions": fill("[a]: x\n"), "length": long} {
		if _, err := r.Render(src); !errors.Is(err, markdown.ErrTooComplex) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, s := range map[string]string{
		"list": "- [Name of a *project*](https://example.org/some/path) - Does `things` and **more** things.\n",
		"prose": "# Title\n\nSome *text* with a [link](x.md), `code` and **bold**.\n\n1. one\n2. two\n\n" +
			"```go\nfunc main() {}\n```\n\n",
		"lines": strings.Repeat("word ", 20) + "\n\n", "table": "|a|b|\n|-|-|\n" + strings.Repeat("|c|d|\n", 20) + "\n",
	} {
		if _, err := r.Render(fill(s)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// loads matches everything with which HTML runs something, or loads it from elsewhere.
var loads = regexp.MustCompile(`(?i)<(script|style|iframe|frame|object|embed|form|input|link|meta|base|svg|` +
	`math|video|` +
	`audio|source|template|body|html)\b|<[^>]*\s(on\w+|style|class|srcset|srcdoc|background|formaction)\s*=|` +
	`<[^>]*\ssrc="\s*([a-z0-9+.-]+:|/|\\)|<[^>]*\shref="\s*(javascript|data|vbscript|file):`)

// FuzzRender: no text makes HTML that runs or loads something, and rendering ends.
func FuzzRender(f *testing.F) {
	for _, s := range hostile {
		f.Add(strings.Repeat(s, 50))
	}
	for _, s := range []string{
		"<script>alert(1)</script>", "<img src=x onerror=y>", "<img src='//a/b'>", "![a](//b)", "[a](javascript&#58;b)",
		"<a href=\"java\nscript:x\">", "<svg/onload=x>", "`<script>`", "<!-- --><iframe>", "<![CDATA[<script>]]>",
		"![](/\\a)",
		"<IMG SRC=\"jav&#x09;ascript:alert(1)\">", "[a]: <javascript:x>\n\n[a]",
		"<math><mi//xlink:href=\"data:x,<script>\">",
		"<img src=\"a\" srcset=\"//b 1x\">", "![a](\tjavascript:x)", "|a|\n|-|\n|<script>|",
		"<details open ontoggle=x>",
	} {
		f.Add(s)
	}
	r := renderer()
	f.Fuzz(func(t *testing.T, src string) {
		out, err := r.Render([]byte(src))
		if err != nil && !errors.Is(err, markdown.ErrTooComplex) {
			t.Fatal(err)
		}
		if bad := loads.FindString(string(out)); bad != "" {
			t.Errorf("%q gives %q in %q", src, bad, out)
		}
	})
}

// TestMemory: no text makes Render allocate more than MemoryPerByte says. Other tests run before or after it, because
// it counts what the process allocates.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates too")
	}
	r := renderer()
	cells := strings.Repeat("a|", 300)
	for name, src := range map[string]string{
		"headings": "# a\n", "empty headings": "#\n", "list": "* a\n", "empty list": "*\n",
		"numbers": "1.\n\n", "quotes": "> a\n\n",
		"nested": "- - - - - - - - - - - - a\n", "nested quotes": "> > > > > > > > > > > >\n\n",
		"mix":   "* *a* **b** [c](d)\n",
		"links": "http://a.b ", "definitions": "[a]: b\n\n", "rules": "---\n",
		"paragraphs": "a\n\n", "tables": "|a|\n|-|\n\n",
		"table":       "|" + cells + "\n|" + strings.Repeat("-|", 300) + "\n" + strings.Repeat("|\n", 430) + "\n",
		"code blocks": "\ta\n\n", "fences": "```\n```\n", "emphasis": "*a* ", "setext": "a\n=\n",
		"breaks": "a  \n", "entities": "&amp; ",
	} {
		text := []byte(strings.Repeat(src, max(1, markdown.MaxSource/len(src))))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := r.Render(text)
		runtime.ReadMemStats(&after)
		took := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text))
		t.Logf("%s: %d bytes for each of %d, %v", name, took, len(text), err)
		if took > markdown.MemoryPerByte {
			t.Errorf("%s: it allocates %d bytes for each of %d", name, took, len(text))
		}
	}
}
