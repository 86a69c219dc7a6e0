package gateway

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/ticket"
)

// shotsEnv names a directory where the browser test leaves what it saw.
const shotsEnv = "ALLIUM_SCREENSHOTS"

// browser is a Chromium tab that keeps what its console says.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// openBrowser starts Chromium with an empty profile and nothing that talks to
// the network by itself.
func openBrowser(t *testing.T, flags ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		const why = "no chromium or google-chrome in PATH: how pages look in a browser is not tested here"
		testkit.Missing(t, why)
	}
	opts := append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1100, 800),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(patience), // until it has started
	}, flags...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })
	b := &browser{ctx: ctx}
	err := chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *log.EventEntryAdded: // failed loads and violations of a policy
			b.problems = append(b.problems, fmt.Sprintf("%s: %s %v", ev.Entry.Level, ev.Entry.Text, ev.Entry.URL))
		case *runtime.EventConsoleAPICalled, *runtime.EventExceptionThrown:
			b.problems = append(b.problems, fmt.Sprintf("%+v", ev))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

func see[T any](t *testing.T, b *browser, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// prefer sets the color scheme that pages are asked for.
func (b *browser) prefer(t *testing.T, scheme string) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// shot saves what the tab shows, if anybody wants to see it.
func (b *browser) shot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv(shotsEnv)
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"),
		see(t, b, chromedp.CaptureScreenshot()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// quiet fails the test if the console said anything since the last time.
func (b *browser) quiet(t *testing.T, where string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		t.Errorf("%s: the console says %s", where, p)
	}
	b.problems = nil
}

// pixel is a PNG that a browser shows.
const pixel = "\x89PNG\r\n\x1a\n" +
	"\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde" +
	"\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82"

// TestBrowser opens pages as a user does: a listing, a directory below it, a
// file, a site of its own with an image, and the landing page.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := start(t)
	files := map[string]string{
		"site/index.html": `<!doctype html><title>A site</title><style>h1{color:rgb(1, 2, ` +
			`3)}</style><h1>Welcome</h1><img src="p.png"><a href="more.html">more</a>`,
		"site/p.png": pixel, "site/more.html": "<!doctype html><title>More</title><p>more",
		"src/main.go":     "package main\n\nfunc main() {}\n",
		"src/go.mod":      "module x\n",
		"src/a%2Cb é.txt": "odd but fine\n",
	}
	for name, content := range site {
		if !strings.HasPrefix(name, "docs/") {
			files[name] = content
		}
	}
	root := n.objects.tree(t, files)
	base := n.Addrs().Gateway
	b := openBrowser(t)

	b.do(t, chromedp.Navigate(base+"/b3/"+root.String()))
	text := see(t, b, chromedp.Text("main"))
	rows := see(t, b, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`))
	width := see(t, b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector("main")).maxWidth`))
	if !strings.Contains(text, "readme.txt") || rows != 13 || width != "992px" {
		t.Errorf("the listing shows %d rows, %s wide: %s", rows, width, text)
	}
	b.shot(t, "listing")
	b.quiet(t, "listing")

	b.do(t, chromedp.Click(`a[href="src/"]`), chromedp.WaitVisible(`a[rel="up"]`))
	if heading := see(t, b, chromedp.Text("h1")); !strings.Contains(heading, "src") {
		t.Errorf("heading %q", heading)
	}
	b.shot(t, "below")
	light := see(t, b, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`))
	b.prefer(t, "dark")
	dark := see(t, b, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`))
	if light == dark {
		t.Errorf("light and dark are both %s", dark)
	}
	b.do(t, chromedp.EmulateViewport(390, 700))
	if wide := see(t, b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); wide > 390 {
		t.Errorf("%d pixels wide on a phone", wide)
	}
	b.shot(t, "dark-phone")
	b.do(t, chromedp.ResetViewport())
	b.prefer(t, "")
	// After the size of a phone this Chromium does not answer to the mouse, so the test follows the link itself.
	b.do(t, chromedp.Navigate(see(t, b, chromedp.Evaluate[string](`document.querySelector('a[href*="%252C"]').href`))))
	text = see(t, b, chromedp.Evaluate[string](`document.querySelector("pre").innerText`))
	if strings.TrimSpace(text) != "odd but fine" {
		t.Errorf("the file shows %q", text)
	}
	b.quiet(t, "file")

	b.do(t, chromedp.Navigate(base+"/b3/"+root.String()+"/site/"))
	heading := see(t, b, chromedp.Text("h1"))
	color := see(t, b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector("h1")).color`))
	image := see(t, b, chromedp.Evaluate[int](`document.querySelector("img").naturalWidth`))
	if heading != "Welcome" || color != "rgb(1, 2, 3)" || image != 1 {
		t.Errorf("the site shows %q in %s with an image %d wide", heading, color, image)
	}
	b.quiet(t, "site")

	b.do(t, chromedp.Navigate(base+"/"), chromedp.SendKeys("#key", root.String()+"/src/"))
	b.shot(t, "landing")
	b.do(t, chromedp.Submit("#key"), chromedp.WaitVisible(`a[rel="up"]`))
	b.quiet(t, "landing")

	// Of a ticket only the address counts: the peer in it is not dialled.
	peerAt, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer peerAt.Close()
	shared := ticketAt(t, root, peerAt.Addr().(*net.TCPAddr).Port)
	b.do(t, chromedp.Navigate(base+"/"), chromedp.SendKeys("#key", shared), chromedp.Submit("#key"),
		chromedp.WaitVisible(`a[href="src/"]`))
	if at := see(t, b, chromedp.Location()); at != base+"/b3/"+root.String()+"/" {
		t.Errorf("the ticket led to %s", at)
	}
	b.quiet(t, "ticket")
	if err := peerAt.(*net.TCPListener).SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if c, err := peerAt.Accept(); err == nil {
		t.Errorf("the gateway dialled the peer of a ticket from %s", c.RemoteAddr())
	}
}

// ticketAt returns a ticket for a directory that a peer on a port of this machine shares.
func ticketAt(t *testing.T, root b3.Root, port int) string {
	t.Helper()
	id, err := peer.Decode("12D3KooWE4239U7UocwvYzy1zc4TNYj54dUB2XWKEPgZJCCWAeKJ")
	if err != nil {
		t.Fatal(err)
	}
	text, err := ticket.Ticket{
		Root: root, Directory: true, Size: 100, Peer: id,
		Addrs: []ma.Multiaddr{ma.StringCast(fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port))},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
