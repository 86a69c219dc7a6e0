package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"allium/internal/testkit"
	"allium/protocols/b3"
)

// axeScript is the source of axe, the accessibility rules of
// `make bin/tools/axe.min.js`. Where it is not installed the test is skipped; CI
// installs it.
func axeScript(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "bin", "tools", "axe.min.js"))
	if err != nil {
		const why = "axe is not installed: whether pages are accessible is not tested here; run `make bin/tools/axe.min.js`"
		testkit.Missing(t, why)
	}
	return string(source)
}

// await makes an evaluation wait for the promise that it gives.
func await(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }

// narrow fails the test where the page that the tab shows is wider than a phone,
// as the tab must be.
func (b *browser) narrow(t *testing.T, where string) {
	t.Helper()
	if wide := see(t, b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); wide > 390 {
		t.Errorf("%s: %d pixels wide on a phone", where, wide)
	}
}

// accessible fails the test where the page that the tab shows breaks one of axe's rules, or may break one, in light or
// dark colors. Only whether a video has captions stays undecided: axe looks for a file of captions, and the page shows
// somebody's video as it is, with those that are in it.
func (b *browser) accessible(t *testing.T, axe, where string) {
	t.Helper()
	see(t, b, chromedp.Evaluate[int](axe+"\n;1"))
	for scheme, rules := range map[string]string{"light": "{}", "dark": `{runOnly: ["color-contrast"]}`} {
		b.prefer(t, scheme)
		answer := see(t, b, chromedp.Evaluate[string](`axe.run(document, `+rules+`).then((r) => {
	const tell = (rule) => rule.id + ": " + rule.help + ": " + rule.nodes.map((n) => n.html).join(" ");
	return JSON.stringify({
		passes: r.passes.length, violations: r.violations.map(tell),
		incomplete: r.incomplete.filter((rule) => rule.id !== "video-caption").map(tell),
	});
})`, await))
		var found struct {
			Passes                 int
			Violations, Incomplete []string
		}
		if err := json.Unmarshal([]byte(answer), &found); err != nil {
			t.Fatal(err)
		}
		if found.Passes == 0 || len(found.Violations)+len(found.Incomplete) > 0 {
			t.Errorf("%s, %s: %d rules hold; violated: %q; undecided: %q", where, scheme,
				found.Passes, found.Violations,
				found.Incomplete)
		}
		b.shot(t, strings.ReplaceAll(where, " ", "-")+"-"+scheme)
	}
	b.prefer(t, "")
}

// visit does steps that lead to another page, and returns how that was answered.
func (b *browser) visit(t *testing.T, steps ...chromedp.Action[chromedp.Void]) *network.Response {
	t.Helper()
	resp, err := chromedp.RunResponse(b.ctx, steps...)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// said returns what the console said since the last time.
func (b *browser) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.problems
	b.problems = nil
	return said
}

// seeProblems opens what is answered with an error: that is a page that everybody
// can read. In the tree at root denied.txt is denied; no peer has lost, which
// is its lost.txt too.
func (b *browser) seeProblems(t *testing.T, base string, root, lost b3.Root, axe string) {
	t.Helper()
	tree := base + "/b3/" + root.String()
	b.do(t, chromedp.EmulateViewport(390, 700))
	for _, c := range []struct {
		what, url string
		code      int
		text      string // part of what the page says
		whole     bool   // every rule is checked; the others differ in a word or two
	}{
		{"unknown path", tree + "/none" + strings.Repeat("long", 30) + ".txt", http.StatusNotFound, "", true},
		{"odd unknown path", tree + "/odd%E2%80%AEtxt.exe/none", http.StatusNotFound, "", false},
		{"no such page", base + "/nothing", http.StatusNotFound, "", false},
		{"no address", base + "/b3/x", http.StatusBadRequest, "", false},
		{"denied", tree + "/denied.txt", http.StatusUnavailableForLegalReasons, "", false},
		{"link out of the tree", tree + "/out", http.StatusNotFound, "", false},
		{"nobody has it", tree + "/lost.txt", http.StatusGatewayTimeout, "did not arrive in time", true},
		{"nobody has the address", base + "/b3/" + lost.String(), http.StatusGatewayTimeout,
			"did not arrive in time", false},
		{"method", "", http.StatusMethodNotAllowed, "", true},
	} {
		var resp *network.Response
		if c.url != "" {
			resp = b.visit(t, chromedp.Navigate(c.url))
		} else {
			b.do(t, chromedp.Navigate(tree+"/"))
			resp = b.visit(t, chromedp.Evaluate[chromedp.Void](`(() => {
	const form = document.createElement("form");
	form.method = "post";
	document.body.append(form);
	form.submit();
})()`))
		}
		if resp.Status != int64(c.code) {
			t.Errorf("%s: %d, want %d", c.what, resp.Status, c.code)
			continue
		}
		heading, text := see(t, b, chromedp.Text("h1")), see(t, b, chromedp.Text("main"))
		if !strings.HasPrefix(heading, fmt.Sprint(c.code)) || !strings.Contains(text, c.text) ||
			strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unprintable) {
			t.Errorf("%s: %q: %q", c.what, heading, text)
		}
		for _, said := range b.said() { // of its status
			if !strings.Contains(said, fmt.Sprintf("status of %d", c.code)) {
				t.Errorf("%s: the console says %s", c.what, said)
			}
		}
		b.narrow(t, c.what)
		if c.whole {
			for _, width := range []int64{390, 1280} {
				b.do(t, chromedp.EmulateViewport(width, 700))
				b.accessible(t, axe, fmt.Sprintf("%s %d", c.what, width))
			}
			b.do(t, chromedp.EmulateViewport(390, 700))
		}
		b.quiet(t, c.what)
	}
	b.do(t, chromedp.ResetViewport())
}
