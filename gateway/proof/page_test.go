package proof

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// root is the directory of the repository.
var root = filepath.Join("..", "..")

// rendered returns a page.
func rendered(t *testing.T, own, name string, others []string) string {
	t.Helper()
	frame := exchange.Frame{Style: exchange.PageStyle, Prefix: "/files"}
	body, err := render(frame, own, b3.Sum(nil), name, others)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestPolicy holds the page against its policy: each script and style sheet in it has its digest there, and nothing
// else would run.
func TestPolicy(t *testing.T) {
	t.Parallel()
	text := rendered(t, "https://a.example", "x.bin", []string{"https://b.example"})
	images := "img-src 'self' blob:"
	if !strings.Contains(Policy(), images) {
		t.Errorf("%s has not %s", Policy(), images)
	}
	testkit.CheckPolicy(t, text, strings.Replace(Policy(), images, "", 1), asset.Digest)
	testkit.CheckAlone(t, text, Policy(), "own")
}

// TestWorkerPolicy: the worker requests its own gateway and those of the link, and no others.
func TestWorkerPolicy(t *testing.T) {
	t.Parallel()
	const none = "default-src 'none'; script-src 'wasm-unsafe-eval'; connect-src 'self'"
	for query, want := range map[string]string{
		"": none, "from=https://a.example,http://b.example:81": none + " https://a.example http://b.example:81",
		"from=https://a.example;script-src": none, "from=*": none, "from=https:": none,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/w.js", nil)
		r.URL.RawQuery = query
		if got := assets().worker.PolicyFor(r); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
}

// TestSmall bounds what the page and its scripts take as they are sent: the page as it is, the scripts compressed.
func TestSmall(t *testing.T) {
	t.Parallel()
	page := len(rendered(t, "https://a.example", "x.bin", []string{"https://b.example"}))
	a := assets()
	all := page + len(a.page.Packed) + len(a.worker.Packed) + len(a.save.Packed)
	t.Logf("%d bytes, %d of them the page", all, page)
	if all > 40<<10 {
		t.Errorf("page and scripts have %d bytes", all)
	}
	for _, s := range []*asset.Asset{a.page, a.worker, a.save} {
		plain, err := s.Plain()
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{
			"sourceMappingURL", "eval(", "new Function(", "https://", "innerHTML", "localStorage",
		} {
			if bytes.Contains(plain, []byte(bad)) {
				t.Errorf("%s contains %s", s.Name, bad)
			}
		}
	}
}

// TestAssetsAreBuilt makes assets/ again.
func TestAssetsAreBuilt(t *testing.T) {
	t.Parallel()
	testkit.Rebundled(t, root, func(string) []string {
		return []string{
			"page.js=script/main.ts", "worker.js=script/worker.ts", "save.js=script/save.ts",
			"verify.mjs=script/verify.ts",
		}
	})
}

// TestScriptTypes checks the types of the scripts, which the bundler takes away unread.
func TestScriptTypes(t *testing.T) {
	t.Parallel()
	modules, _ := testkit.WebModules(t, root)
	tsc := filepath.Join(modules, ".bin", "tsc")
	said, err := exec.CommandContext(t.Context(), tsc, "-p", "script").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// skeleton returns the elements of a page and their attributes' names.
func skeleton(t *testing.T, page string) string {
	t.Helper()
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	for z.Next() != html.ErrorToken {
		if token := z.Token(); token.Type != html.TextToken {
			b.WriteString(token.Type.String() + token.Data)
			for _, a := range token.Attr {
				b.WriteString(" " + a.Key)
			}
		}
	}
	return b.String()
}

// TestTextsStayTexts: neither the name of a file nor a Host changes the page's elements, or its command.
func TestTextsStayTexts(t *testing.T) {
	t.Parallel()
	want := skeleton(t, rendered(t, "https://a.example", "x", nil))
	for _, text := range []string{
		`"><script>`, "</title><img src=x>", "a b;rm -rf", "$(x)", "`x`", "'x'", "-o x", "\u202etxt",
	} {
		page := rendered(t, "http://"+text, fileName(text)+"x", nil)
		if got := skeleton(t, page); got != want {
			t.Errorf("%q changes the page: %s", text, page)
		}
		if want := "<code>allium get " + b3.Sum(nil).String(); !strings.Contains(page, want+"</code>") &&
			!strings.Contains(page, want+" -o ") {
			t.Errorf("%q is in the command", text)
		}
	}
	page := rendered(t, "https://a.example:81", "a-b.txt", nil)
	if !strings.Contains(page, " --gateway https://a.example:81/files -o a-b.txt</code>") {
		t.Errorf("the command is not whole: %s", page)
	}
}

// TestUnderNode runs the module under node: the official vectors, every length of a group's end, with and without
// WebAssembly.
func TestUnderNode(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		testkit.Missing(t, "no node in PATH: the module that proves is tested in a browser alone")
	}
	body, _ := module()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "verify.mjs"), body, 0o600); err != nil {
		t.Fatal(err)
	}
	vectors, err := filepath.Abs(filepath.Join(root, "protocols", "b3", "testdata", "blake3_test_vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"simd", "javascript"} {
		cmd := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "vectors.mjs"),
			filepath.Join(dir, "verify.mjs"), vectors, engine)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", engine, err, said)
		} else {
			t.Logf("%s", said)
		}
	}
}
