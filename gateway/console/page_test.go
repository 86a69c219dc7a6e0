package console

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/internal/testkit"
)

// root is the directory of the repository.
var root = filepath.Join("..", "..")

// TestPolicy holds the page against its policy: each script and style sheet in it has its digest there, and nothing
// else would run or be requested.
func TestPolicy(t *testing.T) {
	t.Parallel()
	body, err := page()
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	testkit.CheckPolicy(t, text, Policy(), asset.Digest)
	testkit.CheckAlone(t, text, Policy(), "'none'")
}

// TestSmall bounds what the page and all that it loads take, compressed.
func TestSmall(t *testing.T) {
	t.Parallel()
	body, err := page()
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	set := assets()
	all := packed.Len() + len(set.script.Packed) + len(set.licence.Packed)
	t.Logf("the console has %d bytes, %d of them the script", all, len(set.script.Packed))
	if all > 80<<10 {
		t.Errorf("the console has %d bytes compressed", all)
	}
	plain, err := set.script.Plain()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"sourceMappingURL", "eval(", "new Function(", "https://"} {
		if bytes.Contains(plain, []byte(bad)) {
			t.Errorf("the script contains %s", bad)
		}
	}
}

// TestAssetsAreBuilt makes assets/ again.
func TestAssetsAreBuilt(t *testing.T) {
	t.Parallel()
	testkit.Rebundled(t, root, func(modules string) []string {
		return []string{
			"console.js=" + filepath.Join("script", "main.tsx"),
			"preact-licence.txt=" + filepath.Join(modules, "preact", "LICENSE"),
		}
	})
}

// TestScriptTypes checks the types of the script, which the bundler takes away unread.
func TestScriptTypes(t *testing.T) {
	t.Parallel()
	modules, _ := testkit.WebModules(t, root)
	said, err := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "tsc"), "-p", "script").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// TestNoHTML: the sources make no HTML of text, and leave nothing in the browser.
func TestNoHTML(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob(filepath.Join("script", "*.ts*"))
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"InnerHTML", "innerHTML", "localStorage", "sessionStorage", ".cookie"} {
			if bytes.Contains(text, []byte(bad)) {
				t.Errorf("%s has %s", name, bad)
			}
		}
	}
}

// TestEndpoints: every route of the console is for the admin listener alone.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, e := range Endpoints() {
		if e.On != exchange.OnAdmin || e.Op != "" || len(e.Methods) != 2 || e.Methods[0] != http.MethodGet {
			t.Errorf("%s is on %d, needs %q and takes %q", e.ID, e.On, e.Op, e.Methods)
		}
	}
}
