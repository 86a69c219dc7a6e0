package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/gateway/weblink"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// testLink is a link that lasts as long as a test.
type testLink struct {
	own    string // its URL at its own listener
	public string // and at the public one
	events chan weblink.Event
	ended  chan error
}

// link opens a link of n.
func (n *testNode) link(t *testing.T, o weblink.Options) *testLink {
	t.Helper()
	l := &testLink{events: make(chan weblink.Event, 1000), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan string, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		l.ended <- n.Links().Serve(ctx, o, "127.0.0.1:0", func(at []weblink.Place) error {
			opened <- at[0].URL
			return nil
		}, func(e weblink.Event) error {
			l.events <- e
			return nil
		})
	})
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	select {
	case l.own = <-opened:
	case err := <-l.ended:
		t.Fatal(err)
	}
	u, err := url.Parse(l.own)
	if err != nil {
		t.Fatal(err)
	}
	l.public = n.Addrs().Gateway + u.Path
	return l
}

// file opens a link to a file of 100,000 bytes.
func (n *testNode) file(t *testing.T, o weblink.Options) (*testLink, []byte) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789"), 10_000)
	o.Root, o.File, o.Name, o.Size = n.objects.put(data), true, "digits & more.bin", int64(len(data))
	return n.link(t, o), data
}

const fileName = "digits%20&%20more.bin"

// cookieOf returns the cookie that an answer sets, as a header.
func cookieOf(a answer) string {
	c, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return c
}

// TestLinkFile: a link shows a page about a file, and keeps its name. Neither pages nor headers tell the address.
func TestLinkFile(t *testing.T) {
	t.Parallel()
	n := start(t)
	l, data := n.file(t, weblink.Options{NotAfter: time.Now().Add(time.Hour)})
	root := b3.Sum(data)
	for _, base := range []string{l.own, l.public} {
		page := do(t, "GET", base, "Accept", "text/html")
		if page.StatusCode != http.StatusOK || len(page.body) > 40<<10 || page.Header.Get("Set-Cookie") != "" ||
			page.Header.Get("Cache-Control") != "private, no-cache" || page.Header.Get("X-Robots-Tag") != "noindex" {
			t.Fatalf("%s, %d bytes, %v", page.Status, len(page.body), page.Header)
		}
		for _, want := range []string{"digits &amp; more.bin", "97.7 KiB", `href="digits%20%26%20more.bin" download`,
			"This link works until "} {
			if !strings.Contains(page.body, want) {
				t.Errorf("the page has no %q:\n%s", want, page.body)
			}
		}
		if regexp.MustCompile(`(href|src|action)="(https?:)?//`).MatchString(page.body) {
			t.Error("the page names another host")
		}
		bytes := do(t, "GET", base+fileName)
		if bytes.body != string(data) ||
			bytes.Header.Get("Content-Disposition") != `inline; filename="digits & more.bin"` {
			t.Errorf("%s %v", bytes.Status, bytes.Header)
		}
		part := do(t, "GET", base+fileName, "Range", "bytes=99995-", "If-Range", bytes.Header.Get("ETag"))
		if part.StatusCode != http.StatusPartialContent || part.body != "56789" {
			t.Errorf("%s %q", part.Status, part.body)
		}
		again := do(t, "GET", base+fileName, "If-None-Match", bytes.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s", again.Status)
		}
		for _, a := range []answer{page, bytes, part, again} {
			if all := fmt.Sprint(a.Header, a.body); strings.Contains(all, root.Hex()[:16]) {
				t.Errorf("the address is in %.500s", all)
			}
		}
		for _, wrong := range []string{"other.bin", fileName + "/", fileName + "/x", "..%2f" + fileName} {
			if a := do(t, "GET", base+wrong); a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", wrong, a.Status)
			}
		}
		top := strings.TrimSuffix(base, "/")
		if a := do(t, "GET", top); a.StatusCode != http.StatusMovedPermanently || !strings.HasSuffix(base,
			a.Header.Get("Location")) {
			t.Errorf("%s %v", a.Status, a.Header)
		}
	}
	if e := <-l.events; !e.Whole || e.From != "127.0.0.1" {
		t.Errorf("%+v", e)
	}
}

// TestLinkDirectory: a directory is a listing, whatever is in it, with nothing that tells addresses.
func TestLinkDirectory(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, map[string]string{
		"index.html": "<script>alert(1)</script>", "sub/a.txt": "inside", "pic.png": "x", "up": "-> ../../etc/passwd",
	})
	l := n.link(t, weblink.Options{Root: root, Name: "holiday"})
	page := do(t, "GET", l.public, "Accept", "text/html")
	gallery := do(t, "GET", l.public+"?view=gallery")
	below := do(t, "GET", l.public+"sub/")
	text := do(t, "GET", l.public+"sub/a.txt?view=preview")
	for _, a := range []answer{page, gallery, below, text} {
		if a.StatusCode != http.StatusOK || strings.Contains(fmt.Sprint(a.Header, a.body), "b3:") ||
			!strings.Contains(a.body, "holiday") || len(a.body) > 40<<10 {
			t.Errorf("%s %v\n%s", a.Status, a.Header, a.body)
		}
	}
	if names := strings.Join(shownNames(page.body), " "); names != "sub/ index.html pic.png up" {
		t.Errorf("%q", names)
	}
	if !strings.Contains(text.body, "inside") {
		t.Error("no preview")
	}
	if a := do(t, "GET", l.public+"sub/a.txt"); a.body != "inside" {
		t.Errorf("%s %q", a.Status, a.body)
	}
	for _, format := range []string{"tar", "zip"} {
		a := do(t, "GET", l.public+"sub/?format="+format)
		if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "inside") ||
			!strings.HasSuffix(a.Header.Get("Content-Disposition"), "sub."+format) ||
			strings.Contains(fmt.Sprint(a.Header, a.body), "b3:") {
			t.Errorf("%s %v\n%q", a.Status, a.Header, a.body)
		}
	}
	for _, format := range []string{"json", "bao", "bundle", "%00", "tar&format=json"} {
		do(t, "GET", l.public+"?format="+format).problem(t, status.BadRequest)
	}
	do(t, "GET", l.public, "Accept", "application/json") // a page all the same
	do(t, "GET", l.public+"up").problem(t, status.NotFound)
	script := do(t, "GET", l.public+"index.html")
	if !strings.HasPrefix(script.Header.Get("Content-Security-Policy"), "sandbox") ||
		script.Header.Get("Content-Disposition") != "attachment; filename=index.html" {
		t.Errorf("%v", script.Header)
	}
	at, _, _ := strings.Cut(l.own, "/s/")
	if a := do(t, "GET", at+"/b3/"+root.String()+"/"); a.StatusCode != http.StatusNotFound {
		t.Errorf("the listener of a link has %s", a.Status)
	}
}

// TestLinkGuessed: a wrong secret is not_found, counted, and after some of them the client has to wait.
func TestLinkGuessed(t *testing.T) {
	t.Parallel()
	n := start(t)
	l, _ := n.file(t, weblink.Options{})
	secret := strings.Split(l.public, "/")[4]
	wrong := []string{"", "x", secret[:25], secret + "a", strings.ToUpper(secret), "a" + secret[1:], secret[:25] + "%00"}
	for i := range 20 {
		at := n.Addrs().Gateway + "/s/" + wrong[i%len(wrong)] + "/"
		if i%len(wrong) == 5 && secret[0] == 'a' {
			at = n.Addrs().Gateway + "/s/b" + secret[1:] + "/"
		}
		do(t, "GET", at).problem(t, status.NotFound)
	}
	if got := n.counter("gateway_link_guesses_total"); got != 20 {
		t.Errorf("%v guesses are counted", got)
	}
	do(t, "GET", n.Addrs().Gateway+"/s/x/").problem(t, status.RateLimit)
	do(t, "GET", l.public).problem(t, status.RateLimit)
	if n.current("gateway.link_guesses") != 1 {
		t.Error("the client is not listed")
	}
	page := do(t, "GET", n.Addrs().Gateway+"/s/x/", "Accept", "text/html")
	if !strings.Contains(page.body, "Wait a minute") {
		t.Errorf("%s", page.body)
	}
}

// TestLinkOnce: of clients that begin at once, one gets the file. It may go on, and get it again, and nobody else.
func TestLinkOnce(t *testing.T) {
	t.Parallel()
	n := start(t)
	l, data := n.file(t, weblink.Options{Downloads: 1})
	for range 3 {
		do(t, "HEAD", l.public+fileName)
		do(t, "GET", l.public+"no.bin").problem(t, status.NotFound)
		do(t, "GET", l.public+fileName, "Range", "bytes=200000-").problem(t, status.BadRange)
		if a := do(t, "GET", l.public); !strings.Contains(a.body, "for 1 more download") {
			t.Fatalf("%s", a.body)
		}
	}
	var got, refused atomic.Int32
	var winner atomic.Pointer[answer]
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch a := do(t, "GET", l.public+fileName); {
			case a.StatusCode == http.StatusOK && a.body == string(data):
				got.Add(1)
				winner.Store(&a)
			case a.StatusCode == http.StatusGone:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 || refused.Load() != 15 {
		t.Fatalf("%d have it, %d were refused", got.Load(), refused.Load())
	}
	if e := <-l.events; e != (weblink.Event{From: "127.0.0.1", Count: 1}) {
		t.Errorf("%+v", e)
	}
	if e := <-l.events; e != (weblink.Event{From: "127.0.0.1", Count: 1, Whole: true}) {
		t.Errorf("%+v", e)
	}
	if err := <-l.ended; err != nil {
		t.Errorf("the link ended with %v", err)
	}
	do(t, "GET", l.public+fileName, "Cookie", cookieOf(*winner.Load())).problem(t, status.Gone)
	page := do(t, "GET", l.public, "Accept", "text/html")
	if page.StatusCode != http.StatusGone || !strings.Contains(page.body, "Ask whoever sent it") {
		t.Errorf("%s %s", page.Status, page.body)
	}
}

// TestLinkResumed: what a client continues is one download: a browser by its cookie, a program by its network and name.
func TestLinkResumed(t *testing.T) {
	t.Parallel()
	n := start(t)
	l, data := n.file(t, weblink.Options{Downloads: 2})
	one := do(t, "GET", l.public+fileName, "Range", "bytes=0-999", "User-Agent", "one")
	if one.StatusCode != http.StatusPartialContent || len(one.body) != 1000 {
		t.Fatalf("%s", one.Status)
	}
	cookie := cookieOf(do(t, "GET", l.public, "User-Agent", "browser"))
	for range 3 { // a browser loads it as often as it likes, in parts and whole
		two := do(t, "GET", l.public+fileName, "Range", "bytes=0-9999", "Cookie", cookie)
		whole := do(t, "GET", l.public+fileName, "Cookie", cookie)
		if len(two.body) != 10_000 || whole.body != string(data) {
			t.Fatalf("%s %s", two.Status, whole.Status)
		}
	}
	for _, other := range [][]string{
		{"User-Agent", "one"}, // from the beginning again
		{"User-Agent", "one", "Range", "bytes=0-"},
		{"User-Agent", "two", "Range", "bytes=1000-"},
		{"User-Agent", "one", "Range", "bytes=1000-", "Cookie", "allium-link=" + strings.Repeat("a", 26)},
	} {
		do(t, "GET", l.public+fileName, other...).problem(t, status.Gone)
	}
	rest := do(t, "GET", l.public+fileName, "Range", "bytes=1000-", "User-Agent", "one")
	if one.body+rest.body != string(data) {
		t.Errorf("%s", rest.Status)
	}
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
	close(l.events)
	whole := 0
	for e := range l.events {
		if e.Whole {
			whole++
		}
	}
	if whole != 2 {
		t.Errorf("%d downloads are whole", whole)
	}
}

// TestLinkShowsNothing: the pages of a link with a number of downloads have nothing of the content.
func TestLinkShowsNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	text := []byte("the secret text")
	root := n.objects.tree(t, map[string]string{"note.txt": string(text)})
	file := n.link(t, weblink.Options{Root: b3.Sum(text), File: true, Name: "note.txt", Size: 15, Downloads: 1})
	dir := n.link(t, weblink.Options{Root: root, Name: "notes", Downloads: 1})
	for _, at := range []string{file.public, dir.public, dir.public + "note.txt?view=preview"} {
		if a := do(t, "GET", at); a.StatusCode != http.StatusOK || strings.Contains(a.body, string(text)) {
			t.Errorf("%s: %s", at, a.Status)
		}
	}
	cookie := cookieOf(do(t, "GET", dir.public))
	for range 2 {
		if a := do(t, "GET", dir.public+"note.txt", "Cookie", cookie); a.body != string(text) {
			t.Errorf("%s", a.Status)
		}
	}
	do(t, "GET", dir.public+"note.txt").problem(t, status.Gone)
}

// TestLinkExpired: after its end a link is gone, a download that has begun goes on, and the link ends behind it.
func TestLinkExpired(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	n := startWith(t, hooks{deps: func(d *Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}})
	gate := make(chan struct{})
	data := bytes.Repeat([]byte("x"), 10_000)
	root := n.objects.add(&fakeObject{data: data, gate: gate})
	l := n.link(t, weblink.Options{
		Root: root, File: true, Name: "x.bin", Size: 10_000, Downloads: 2, NotAfter: time.Now().Add(time.Hour),
	})
	var downloading sync.WaitGroup
	downloading.Go(func() {
		if a := do(t, "GET", l.public+"x.bin"); a.body != string(data) {
			t.Errorf("the download that had begun: %s", a.Status)
		}
	})
	<-l.events // it began
	ahead.Store(int64(2 * time.Hour))
	do(t, "GET", l.public).problem(t, status.Gone)
	do(t, "GET", l.public+"x.bin").problem(t, status.Gone)
	if a := do(t, "GET", l.own, "Accept", "text/html"); !strings.Contains(a.body, "This link has expired") {
		t.Errorf("%s", a.body)
	}
	select {
	case err := <-l.ended:
		t.Fatalf("ended during a download: %v", err)
	default:
	}
	close(gate)
	downloading.Wait()
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the link has left its gate", func() bool { return n.current("gateway.links") == 0 })
}

// TestLinkFails: a download of which nothing was sent does not count.
func TestLinkFails(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.add(&fakeObject{data: []byte("damaged"), err: status.Errorf(status.Corrupt, "it is damaged")})
	l := n.link(t, weblink.Options{Root: root, File: true, Name: "x", Size: 7, Downloads: 1})
	for range 2 {
		do(t, "GET", l.public+"x").problem(t, status.Corrupt)
	}
	if a := do(t, "GET", l.public); !strings.Contains(a.body, "for 1 more download") {
		t.Errorf("%s", a.body)
	}
}

// TestLinkConceals: what fails tells no visitor the address of what a link shows, nor who has it.
func TestLinkConceals(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, o := range []status.Outcome{
		status.NotFound, status.Denied, status.Corrupt, status.Upstream, status.BreakerOpen, status.TransportDown,
		status.Timeout, status.BadRequest, status.Internal,
	} {
		data := []byte(o.String())
		secret := b3.Sum(data).String()
		root := n.objects.add(&fakeObject{data: data, err: &status.Error{
			Outcome: o, LookupID: "0123456789abcdef",
			Message: secret + ": 1 provider tried (12D3KooWKXcY: /ip4/192.0.2.1/tcp/1)",
		}})
		l := n.link(t, weblink.Options{Root: root, File: true, Name: "x", Size: int64(len(data))})
		for i, at := range []string{l.public, l.public, l.own, l.own} {
			a := do(t, "GET", at+"x", "Accept", []string{"", "text/html"}[i%2])
			for _, told := range []string{secret, "b3:", "12D3", "192.0.2.1"} {
				if a.StatusCode != o.Code() || strings.Contains(a.body+fmt.Sprint(a.Header), told) {
					t.Errorf("%s: %s %v %s", o, a.Status, a.Header, a.body)
				}
			}
		}
	}
	dir := n.link(t, weblink.Options{Root: n.objects.tree(t, map[string]string{"a": "b"})})
	for _, path := range []string{"none", "a/b", "none?format=zip"} {
		if p := do(t, "GET", dir.public+path).problem(t, status.NotFound); strings.Contains(p.Detail, "b3:") {
			t.Errorf("%s: %s", path, p.Detail)
		}
	}
}

// TestLinksBounded: links are bounded, end with the gateway, and bad options are refused.
func TestLinksBounded(t *testing.T) {
	t.Parallel()
	n := start(t)
	var all []*testLink
	for range 64 {
		l, _ := n.file(t, weblink.Options{})
		all = append(all, l)
	}
	serve := func(o weblink.Options, listen string) error {
		return n.Links().Serve(t.Context(), o, listen, func([]weblink.Place) error { return nil }, nil)
	}
	for _, c := range []struct {
		err  error
		want status.Outcome
	}{
		{serve(weblink.Options{}, "127.0.0.1:0"), status.Busy},
		{serve(weblink.Options{}, "nowhere"), status.BadRequest},
		{serve(weblink.Options{Downloads: -1}, ":0"), status.BadRequest},
		{serve(weblink.Options{Downloads: weblink.MaxDownloads + 1}, ":0"), status.BadRequest},
		{serve(weblink.Options{NotAfter: time.Now()}, ":0"), status.BadRequest},
	} {
		if status.Of(c.err) != c.want {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
	if err := n.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for _, l := range all {
		if err := <-l.ended; err != nil {
			t.Error(err)
		}
	}
	if err := serve(weblink.Options{}, ":0"); status.Of(err) != status.Draining {
		t.Errorf("%v", err)
	}
}
