package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/internal/testkit"
)

// consoleViews are the views of the console, each with texts that fakeOverview gives it.
var consoleViews = map[string][]string{
	"now":     {"Not ready", "Wait for peers.", "gateway.requests", "refused 3 times", "3.00 MiB of 9.00 MiB", "9 B"},
	"peers":   {"Anyone can dial", "1.5 ms RTT", "through a relay", "breaker open", "open it"},
	"content": {"1 object at risk", "at risk: 2 of 3 copies", "4 of 5 objects", "512 KiB of 1.00 MiB", "no record"},
	"names":   {"blog.site", "seq 7", "news.k51", "2 followers", "expires in 3 d"},
	"lookups": {"fetch", "corrupt, 13 ms", "running"},
	"reload":  {"applied", "node.upload_rate", "it has ended"},
	"testnet": {"4 nodes", "cut", "one bit of every", "2 failures in a row"},
}

// consoleScript returns the path of the script of the console.
func consoleScript(t *testing.T, n *testNode) string {
	t.Helper()
	_, rest, ok := strings.Cut(do(t, "GET", n.Addrs().Admin+"/console/").body, `<script src="`)
	path, _, end := strings.Cut(rest, `"`)
	if !ok || !end {
		t.Fatal("the console has no script")
	}
	return path
}

// openConsole opens a view of the console and waits until it shows the state of the node.
func (b *browser) openConsole(t *testing.T, base, view string) {
	t.Helper()
	b.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(base+"/console/#"+view),
		chromedp.WaitVisible("main .card"))
}

// until waits until a condition holds in the tab.
func (b *browser) until(t *testing.T, condition string) {
	t.Helper()
	holds := chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(patience))
	if _, err := chromedp.Run(b.ctx, holds); err != nil {
		t.Fatalf("%s: %v; the page shows %q", condition, err, see(t, b, chromedp.Text("body")))
	}
}

// TestBrowserConsole looks at each view of the console at the width of a phone and of a desk, in light and dark colors.
// ALLIUM_SCREENSHOTS keeps what it saw. Nothing is requested from elsewhere, and nothing breaks the policy of the page.
func TestBrowserConsole(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	n := start(t)
	base := n.Addrs().Admin
	b := openBrowser(t)
	strange := b.watchRequests(t, base)
	for view, texts := range consoleViews {
		for _, width := range []int{360, 1280} {
			where := fmt.Sprintf("console-%s-%d", view, width)
			b.do(t, chromedp.EmulateViewport(int64(width), 900))
			b.openConsole(t, base, view)
			b.until(t, `document.querySelector('nav a[aria-current="page"]').getAttribute("href") === "#`+view+`"`)
			see(t, b, chromedp.Evaluate[int](`document.querySelectorAll("details").forEach((d) => d.open = true), 1`))
			text := see(t, b, chromedp.Evaluate[string](`document.body.innerText`))
			for _, want := range texts {
				if width == 1280 && !strings.Contains(text, want) {
					t.Errorf("%s lacks %q: %s", where, want, text)
				}
			}
			if wide := see(t, b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); wide > width {
				t.Errorf("%s: %d pixels wide", where, wide)
			}
			b.accessible(t, axe, where)
			b.quiet(t, where)
		}
	}
	if urls := slices.DeleteFunc(strange(), func(u string) bool { return u == "about:blank" }); len(urls) > 0 {
		t.Errorf("the console requested %q", urls)
	}
}

// TestBrowserConsoleAnswers uses the console by keys: it changes the view, explains a lookup, and unpins with a token.
func TestBrowserConsoleAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	n := start(t)
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(n.Addrs().Admin+"/"), chromedp.WaitVisible("main .card")) // / leads to the console
	press := func(what string) {
		t.Helper()
		b.until(t, "document.querySelector(`"+what+"`) !== null")
		see(t, b, chromedp.Evaluate[int]("document.querySelector(`"+what+"`).click(), 1"))
	}
	focused := `document.activeElement.textContent`
	tabTo := func(text string) {
		t.Helper()
		for range 60 {
			b.do(t, chromedp.KeyEvent(kb.Tab))
			if strings.Contains(see(t, b, chromedp.Evaluate[string](focused)), text) {
				return
			}
		}
		t.Fatalf("the key Tab does not lead to %q", text)
	}
	tabTo("Lookups")
	b.do(t, chromedp.KeyEvent(kb.Enter))
	b.until(t, `document.title === "Lookups · allium"`)
	if on := see(t, b, chromedp.Evaluate[string](`document.activeElement.localName`)); on != "main" {
		t.Errorf("the focus is on %s after a change of the view", on)
	}
	tabTo("fetch")
	b.do(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("svg.ladder"))
	text := see(t, b, chromedp.Evaluate[string](`document.querySelector("main").innerText`))
	for _, want := range []string{"cache: hit", "given up: corrupt, group 3", "The ladder"} {
		if !strings.Contains(text, want) {
			t.Errorf("the lookup lacks %q: %s", want, text)
		}
	}
	if rungs := see(t, b, chromedp.Evaluate[int](`document.querySelectorAll("svg.ladder circle").length`)); rungs !=
		len(fakeTrace.Steps) {
		t.Errorf("the ladder has %d rungs", rungs)
	}
	b.accessible(t, axe, "console-why")

	// Without a token nothing can be changed; with a wrong one the node says why.
	press(`nav a[href="#content"]`)
	b.until(t, `document.title === "Content · allium"`)
	if n := see(t, b, chromedp.Evaluate[int](`document.querySelectorAll(".acts").length`)); n != 0 {
		t.Errorf("%d changes are offered without a token", n)
	}
	unpin := func(token string) string {
		t.Helper()
		press(`.token summary`)
		b.do(t, chromedp.SendKeys(`#token`, token))
		press(`.token form button`)
		press(`.rows .acts button`)
		press(`.rows .sure button`)
		b.until(t, `!["", "Waiting for the node…"].includes(document.querySelector(".outcome").textContent)`)
		return see(t, b, chromedp.Text(".outcome"))
	}
	if said := unpin("may-put"); !strings.Contains(said, "does not allow") {
		t.Errorf("with a token for something else: %q", said)
	}
	b.accessible(t, axe, "console-refused")
	press(`p.token button`)
	if said := unpin("may-unpin"); !strings.Contains(said, "has that pin no more") {
		t.Errorf("with a token: %q", said)
	}
	if calls := n.node.calls(); !slices.Contains(calls, "unpin "+fakeRoot.String()+" l") {
		t.Errorf("the node heard %q", calls)
	}
	b.accessible(t, axe, "console-changed")
}

// TestBrowserConsoleRestart: the console says that the node is away, and shows it again once it is back.
func TestBrowserConsoleRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := start(t)
	base := n.Addrs().Admin
	b := openBrowser(t)
	b.openConsole(t, base, "now")
	live := `document.querySelector("main").innerText.includes("not live") === false`
	b.until(t, live)
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	b.until(t, `document.querySelector(".state-line").textContent.includes("does not answer")`)
	b.shot(t, "console-away")
	if text := see(t, b, chromedp.Text("main")); !strings.Contains(text, "gateway.requests") {
		t.Errorf("what was known is gone: %s", text)
	}
	other := fakeOverview
	other.ID = "12D3Again"
	again := start(t, func(_ *Config, admin *server.AdminConfig) { admin.Listen = strings.TrimPrefix(base, "http://") })
	again.node.overview.set(func() api.Overview { return other })
	b.until(t, `document.querySelector(".node").textContent.includes("12D3Again")`)
	b.until(t, live)
}

// TestBrowserConsoleUnderLoad: many more events than a reader can take do not make the console ask more often, and it
// says what it lost.
func TestBrowserConsoleUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := start(t)
	b := openBrowser(t)
	b.openConsole(t, n.Addrs().Admin, "now")
	b.until(t, `document.querySelector("main").innerText.includes("not live") === false`)
	testkit.Eventually(t, "a reader of events", func() bool { return n.current("events.readers") == 1 })
	looks := func() (looks int) {
		for _, c := range n.node.calls() {
			if strings.HasPrefix(c, "overview") {
				looks++
			}
		}
		return looks
	}
	before := looks()
	transfers := n.events.Topic(string(api.TopicTransfers))
	for i := range 20_000 {
		transfers.Publish(&api.Event{
			Topic: api.TopicTransfers, Kind: api.EventEnded, At: fakeTime, Transfer: &api.TransferEvent{
				Root: fakeRoot, Outcome: "ok", Bytes: int64(i), TookMS: 1,
			},
		})
	}
	n.events.Topic(string(api.TopicPeers)).Publish(&api.Event{
		Topic: api.TopicPeers, Kind: api.EventConnected, At: fakeTime, Peer: &api.PeerEvent{ID: "the-last-peer"},
	})
	b.until(t, `document.querySelector("main").innerText.includes("the-last-peer connected")`)
	if rows := see(t, b, chromedp.Evaluate[int](`document.querySelectorAll("main li").length`)); rows > 100 {
		t.Errorf("the page has %d rows", rows)
	}
	b.shot(t, "console-load")
	if more := looks() - before; more > 20 { // at most one a second
		t.Errorf("%d looks for one burst of events", more)
	}
	b.quiet(t, "load")
}
