package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/bao"
)

// lies are the ways in which a gateway can be wrong about an encoding: each changes the answer that b is of. What it
// leaves out or holds back is written by liar.
var lies = map[string]func(b []byte) []byte{
	"group":    func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	"early":    func(b []byte) []byte { b[min(1000, len(b)-1)] ^= 1; return b },
	"middle":   func(b []byte) []byte { b[len(b)/2] ^= 0x80; return b },
	"parent":   func(b []byte) []byte { b[8] ^= 1; return b },
	"longer":   func(b []byte) []byte { return resized(b, 1) },
	"shorter":  func(b []byte) []byte { return resized(b, -1) },
	"huge":     func(b []byte) []byte { binary.LittleEndian.PutUint64(b, 1<<63); return b },
	"nothing":  func([]byte) []byte { return nil },
	"header":   func(b []byte) []byte { return b[:5] },
	"cut":      func(b []byte) []byte { return b[:len(b)-1] },
	"extra":    func(b []byte) []byte { return append(b, 0) },
	"twice":    func(b []byte) []byte { return append(b, b...) },
	"zeros":    func(b []byte) []byte { clear(b[8:]); return b },
	"swapped":  func(b []byte) []byte { return append(b[:8:8], append(b[40:72:72], b[8:40]...)...) },
	"html":     func([]byte) []byte { return []byte("<!doctype html><title>Log in</title>") },
	"other":    func(b []byte) []byte { return b }, // of another object
	"stalled":  func(b []byte) []byte { return b[:len(b)/2] },
	"broken":   func(b []byte) []byte { return b[:len(b)/2] },
	"refusing": func([]byte) []byte { return []byte("no") },
	"failing":  func([]byte) []byte { return []byte("later") },
	"away":     func([]byte) []byte { return nil }, // a redirect to another origin
}

// resized changes the size that an encoding claims.
func resized(b []byte, by int64) []byte {
	size := binary.LittleEndian.Uint64(b)
	binary.LittleEndian.PutUint64(b, uint64(int64(size)+by)) //nolint:gosec // sizes of tests
	return b
}

// liar is a gateway before another: it lies as how says, about encodings alone.
type liar struct {
	*httptest.Server
	mu    sync.Mutex
	how   string
	late  bool   // it is honest about the size
	other string // the address that it tells of instead
}

// newLiar starts a liar before the gateway at base.
func newLiar(t *testing.T, base, other string) *liar {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{other: other}
	honest := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, Transport: transport,
	}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		how, q := l.how, r.URL.Query()
		if q.Get("format") != "bao" || l.late && q.Get("bytes") == "-1" {
			how = ""
		}
		l.mu.Unlock()
		if how == "" {
			honest.ServeHTTP(w, r)
			return
		}
		l.lie(t, w, r, base, how)
	}))
	t.Cleanup(l.Close)
	return l
}

// set changes how the gateway lies.
func (l *liar) set(how string, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.how, l.late = how, late
}

func (l *liar) lie(t *testing.T, w http.ResponseWriter, r *http.Request, base, how string) {
	uri := r.URL.RequestURI()
	if how == "other" {
		uri = "/o/" + l.other + "?" + r.URL.RawQuery
	}
	b := lies[how]([]byte(do(t, "GET", base+uri).body))
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Content-Type", bao.MediaType)
	switch how {
	case "html":
		h.Set("Content-Type", "text/html")
	case "refusing":
		w.WriteHeader(http.StatusNotFound)
	case "failing":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "away":
		http.Redirect(w, r, "http://127.0.0.2:1/o/x", http.StatusFound)
		return
	case "broken", "stalled":
		h.Set("Content-Length", fmt.Sprint(len(b)+1))
	}
	_, _ = w.Write(b)
	if how == "stalled" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	if how == "broken" {
		panic(http.ErrAbortHandler)
	}
}

// saving makes the picker of files give a file of the browser's own, which differs only in that nobody is asked.
const saving = `if (location.protocol !== "about:") window.showSaveFilePicker = async ({suggestedName}) =>
	(await navigator.storage.getDirectory()).getFileHandle(suggestedName, {create: true});`

// prepare makes every page of the tab run a script first.
func (b *browser) prepare(t *testing.T, script string) {
	t.Helper()
	first := page.AddScriptToEvaluateOnNewDocumentParams{Source: script}
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, first); err != nil {
		t.Fatal(err)
	}
}

// outcome is what the page that proves shows at its end.
type outcome struct {
	State  string
	Good   bool
	Faults []string
	Size   int64  // of the file; -1: there is none
	Sum    string // the SHA-256 of the file
}

// prove opens a page that proves, presses a button and returns what came of it. name is that of the file.
func (b *browser) prove(t *testing.T, url, button, name string) (o outcome) {
	t.Helper()
	b.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(url), chromedp.WaitEnabled("#"+button))
	see(t, b, chromedp.Evaluate[string](`document.querySelector("main").dataset.patience = "1500"`))
	b.do(t, chromedp.Click("#"+button))
	b.until(t, `document.querySelector("#state").className !== ""`)
	got := see(t, b, chromedp.Evaluate[string](fmt.Sprintf(`(async () => {
	const state = document.querySelector("#state");
	const out = {State: state.textContent, Good: state.className === "good", Size: -1,
		Faults: [...document.querySelectorAll("#faults li")].map((e) => e.textContent)};
	const dir = await navigator.storage.getDirectory();
	try {
		const file = await (await dir.getFileHandle(%[1]q)).getFile();
		out.Size = file.size;
		const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
		out.Sum = [...sum].map((b) => b.toString(16).padStart(2, "0")).join("");
		await dir.removeEntry(%[1]q);
	} catch (err) {
		if (err.name !== "NotFoundError") throw err;
	}
	return JSON.stringify(out);
})()`, name), await))
	if err := json.Unmarshal([]byte(got), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// sumOf is the SHA-256 of bytes as a page writes it.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// TestBrowserProves saves objects of every shape from an honest gateway.
func TestBrowserProves(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := start(t)
	b := openBrowser(t)
	b.prepare(t, saving)
	for _, size := range []int{
		0, 1, 1024, 5000, b3.GroupSize - 1, b3.GroupSize, b3.GroupSize + 1, 3<<20 + 7, 40<<20 + 1,
	} {
		data := patterned(size)
		o := b.prove(t, n.Addrs().Gateway+"/verify/"+n.objects.put(data).String()+"?name=a.bin", "pick", "a.bin")
		if !o.Good || o.Size != int64(size) || o.Sum != sumOf(data) || len(o.Faults) > 0 {
			t.Errorf("%d bytes: %+v", size, o)
		}
	}
	b.quiet(t, "honest gateways")
}

// TestBrowserWithoutWorkers: a page whose workers do not run says so, whenever it is asked.
func TestBrowserWithoutWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := start(t)
	b := openBrowser(t)
	b.prepare(t, saving)
	b.prepare(t, `window.Worker = class {
	constructor() { setTimeout(() => this.onerror(new Event("error"))); }
	postMessage() {}
};`)
	o := b.prove(t, n.Addrs().Gateway+"/verify/"+n.objects.put(patterned(5000)).String()+"?name=a.bin", "pick", "a.bin")
	if o.Good || !strings.HasSuffix(o.State, "Nothing is saved.") ||
		len(o.Faults) == 0 || !strings.Contains(o.Faults[0], "does not run the page's worker") {
		t.Errorf("%+v", o)
	}
}

// TestBrowserCatchesLies: a gateway that lies in any way is named, and the next one is asked. Alone it gets nothing
// saved.
func TestBrowserCatchesLies(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.CORSOrigins = []string{"*"} })
	data := patterned(3<<20 + 4321)
	root := n.objects.put(data)
	l := newLiar(t, n.Addrs().Gateway, n.objects.put(patterned(3<<20+9999)).String())
	b := openBrowser(t)
	b.prepare(t, saving)
	there := "/verify/" + root.String() + "?name=a.bin"
	liarName := strings.TrimPrefix(l.URL, "http://")
	honest := []string{"stalled", "broken", "refusing", "failing", "away"} // not lies
	for how := range lies {
		for _, late := range []bool{false, true} {
			l.set(how, late)
			o := b.prove(t, l.URL+there+"&from="+n.Addrs().Gateway, "pick", "a.bin")
			said := strings.Join(o.Faults, "\n")
			if !o.Good || o.Sum != sumOf(data) || len(o.Faults) == 0 ||
				strings.Contains(said, liarName+" lied: ") == slices.Contains(honest, how) {
				t.Errorf("%s, late %t: %+v", how, late, o)
			}
		}
		o := b.prove(t, l.URL+there, "pick", "a.bin")
		all := slices.Contains([]string{"extra", "twice", "longer", "shorter"}, how) // may prove every byte first
		if o.Good && (!all || o.Sum != sumOf(data)) || !o.Good && o.Size > 0 || len(o.Faults) == 0 {
			t.Errorf("%s, alone: %+v", how, o)
		}
	}
	b.said() // failed loads, which the page itself tells of
}

// proofScript returns the path of the script of the page that proves.
func proofScript(t *testing.T, n *testNode) string {
	t.Helper()
	a := do(t, "GET", n.Addrs().Gateway+"/verify/"+b3.Sum(nil).String())
	_, rest, _ := strings.Cut(a.body, `<script src="`)
	path, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("the page has no script: %s", a.body)
	}
	return path
}

// TestBrowserAsksSeveral: several gateways are asked at once, each for a part.
func TestBrowserAsksSeveral(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	open := func(c *Config, _ *server.AdminConfig) { c.CORSOrigins = []string{"*"} }
	data := patterned(24 << 20)
	var from []string
	var root b3.Root
	for range 3 {
		n := start(t, open)
		root = n.objects.put(data)
		from = append(from, n.Addrs().Gateway)
	}
	b := openBrowser(t)
	b.prepare(t, saving)
	o := b.prove(t, from[0]+"/verify/"+root.String()+"?name=a.bin&from="+from[1]+",,"+from[2]+"/", "pick", "a.bin")
	if !o.Good || o.Sum != sumOf(data) {
		t.Errorf("%+v", o)
	}
	const shown = `[...document.querySelectorAll("#gateways li")].map((e) => e.textContent).join("\n")`
	if text := see(t, b, chromedp.Evaluate[string](shown)); strings.Count(text, "MiB proved") != 3 {
		t.Errorf("not all of the gateways were asked: %s", text)
	}
	b.quiet(t, "several gateways")
}

// TestBrowserProofLooks looks at the page at the width of a phone and of a desk, light and dark, before and after: it
// proves and shows a picture and a text, is cancelled by a key, and says without scripts what to do.
func TestBrowserProofLooks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	n := start(t)
	l := newLiar(t, n.Addrs().Gateway, "")
	b := openBrowser(t)
	shown := func(data, want, selector, test string) {
		t.Helper()
		o := b.prove(t, n.Addrs().Gateway+"/verify/"+n.objects.put([]byte(data)).String(), "look", "-")
		if !o.Good || !strings.Contains(o.State, want) {
			t.Errorf("%s: %+v", want, o)
		}
		holds := fmt.Sprintf(`((e) => %s)(document.querySelector(%q))`, test, selector)
		if selector != "" && !see(t, b, chromedp.Evaluate[bool](holds)) {
			t.Errorf("%s is not shown", selector)
		}
	}
	shown(picture(t, 1), "The picture is below.", "#shown img", "e.naturalWidth === 320")
	b.shot(t, "verify-picture")
	shown("<script>alert(1)</script>\u202e é\n", "The text is below.", "#shown pre",
		`e.textContent === "<script>alert(1)</script>\ufffd é\n" && !e.children.length`)
	shown(strings.Repeat("é", 200_000), "The first 256 KiB are below.", "#shown pre",
		"e.textContent.length === 131072")
	shown(pixel[:20], "cannot show it", "", "")
	shown("\xff\xfe\x00", "neither a picture nor a text", "", "")
	b.quiet(t, "shown")

	there := l.URL + "/verify/" + n.objects.put(patterned(1<<20)).String() + "?name=" + strings.Repeat("long", 50) +
		".bin&from=https://gateway.example.org"
	for _, width := range []int64{360, 1280} {
		b.do(t, chromedp.EmulateViewport(width, 800), chromedp.Navigate(there), chromedp.WaitEnabled("#save"))
		b.accessible(t, axe, fmt.Sprintf("verify-%d", width))
		l.set("stalled", true)
		b.do(t, chromedp.Focus("#look"), chromedp.KeyEvent("\r"))
		b.until(t, `document.activeElement.id === "stop" && document.querySelector("#speed").textContent !== ""`)
		b.accessible(t, axe, fmt.Sprintf("verify-running-%d", width))
		b.do(t, chromedp.KeyEvent("\r"))
		b.until(t, `document.querySelector("#state").textContent === "Cancelled. Nothing is saved."`)
		l.set("group", false)
		b.do(t, chromedp.Focus("#look"), chromedp.KeyEvent("\r"))
		b.until(t, `document.querySelector("#faults").textContent.includes(" lied: bytes ")`)
		b.accessible(t, axe, fmt.Sprintf("verify-lie-%d", width))
		if wide := see(t, b, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)); wide > width {
			t.Errorf("%d pixels wide on %d", wide, width)
		}
	}
	b.do(t, chromedp.ResetViewport())
	b.said() // gateway.example.org is nowhere
	b.scriptless(t)
	b.do(t, chromedp.Navigate(there))
	if text := see(t, b, chromedp.Text("noscript")); !strings.Contains(text, "b3sum") {
		t.Errorf("without scripts the page says %q", text)
	}
	b.quiet(t, "without scripts")
}
