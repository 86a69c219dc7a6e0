package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestBrowserUpload uploads a folder and a file by the form, without any script of the page.
func TestBrowserUpload(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	caps := newMinted(t)
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities = caps }})
	token := strings.TrimPrefix(caps.mint(t)[1], "Bearer ")
	dir := filepath.Join(t.TempDir(), "photos")
	odd := filepath.Join(dir, "2026", `a "b" é.txt`)
	if err := os.MkdirAll(filepath.Dir(odd), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{odd, filepath.Join(dir, "c.txt")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := openBrowser(t)
	for _, width := range []int64{1280, 390} {
		b.do(t, chromedp.EmulateViewport(width, 700), chromedp.Navigate(n.Addrs().Gateway+"/upload"))
		b.accessible(t, axe, fmt.Sprintf("upload-%d", width))
	}
	b.narrow(t, "upload")
	b.do(t, chromedp.ResetViewport(), chromedp.SendKeys("#token", token),
		chromedp.SetUploadFiles("#folder", []string{dir}),
		chromedp.SetUploadFiles("#files", []string{filepath.Join(dir, "c.txt")}),
		chromedp.Submit("#token"), chromedp.WaitNotPresent("#token"))
	if url := see(t, b, chromedp.Location()); !strings.Contains(url, "/b3/b3:") {
		t.Errorf("the browser is at %s", url)
	}
	n.sent.mu.Lock()
	names := slices.Sorted(slices.Values(n.sent.names))
	n.sent.mu.Unlock()
	if want := []string{"c.txt", `photos/2026/a "b" é.txt`, "photos/c.txt"}; !slices.Equal(names, want) {
		t.Errorf("the files are %q", names)
	}

	// A wrong capability is a page that says so.
	b.do(t, chromedp.Navigate(n.Addrs().Gateway+"/upload"), chromedp.SendKeys("#token", "wrong"),
		chromedp.SetUploadFiles("#files", []string{filepath.Join(dir, "c.txt")}),
		chromedp.Submit("#token"), chromedp.WaitNotPresent("#token"))
	if text := see(t, b, chromedp.Text("h1")); !strings.Contains(text, "401") {
		t.Errorf("a wrong capability: %q", text)
	}
}
