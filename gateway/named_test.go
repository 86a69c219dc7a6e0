package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// fakeNames knows names. It remembers what it was asked once.
type fakeNames struct {
	mu    sync.Mutex
	named map[string]content.Named
	asked map[string]int
	links map[string]string // keys of domains
}

// DomainKey implements content.Names.
func (f *fakeNames) DomainKey(_ context.Context, domain string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[domain]++
	switch key, ok := f.links[domain]; {
	case !ok:
		return "", status.Errorf(status.NotFound, "the DNS has no link for %s", domain)
	case key == "down":
		return "", status.Errorf(status.Timeout, "the DNS did not answer")
	default:
		return key, nil
	}
}

// set makes a name stand for something.
func (f *fakeNames) set(text string, n content.Named) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named[text] = n
}

// times returns how often a name, or the DNS for a domain, was asked for.
func (f *fakeNames) times(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[text]
}

// CachedName implements content.Names.
func (f *fakeNames) CachedName(text string, _ time.Duration) (content.Named, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.named[text]
	return n, ok && !n.Stale && f.asked[text] > 0
}

// ResolveName implements content.Names.
func (f *fakeNames) ResolveName(_ context.Context, text string, maxStale time.Duration) (content.Named, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[text]++
	n, ok := f.named[text]
	if text == "old.alice" && maxStale < time.Minute {
		return content.Named{}, status.Errorf(status.Stale, "the record of old.alice expired")
	}
	switch {
	case text == "gone.alice":
		return n, status.Errorf(status.Gone, "gone.alice was withdrawn by the owner of its zone")
	case !ok:
		return content.Named{LookupID: 0xabc}, status.WithLookup(
			status.Errorf(status.NotFound, "no record of %s was found", text), 0xabc)
	}
	return n, nil
}

// TestNamed: a path below a name is answered as that below its address, and kept for as long as
// its record may be.
func TestNamed(t *testing.T) {
	t.Parallel()
	names := &fakeNames{named: map[string]content.Named{}, asked: map[string]int{}}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Names = names }})
	root := n.objects.tree(t, site)
	names.set("blog.alice", content.Named{Root: root, TTL: 61500 * time.Millisecond})
	names.set("docs.alice", content.Named{Root: root, Path: "docs", TTL: time.Minute})
	names.set("page.alice", content.Named{Root: root, Path: "docs/deep/a.go", TTL: time.Minute})
	names.set("link.alice", content.Named{Root: root, Path: "docs/home", TTL: time.Minute})
	const kept, forever = "public, max-age=61", exchange.Immutable
	for _, c := range []struct {
		path           string
		code           int
		location, body string
		caching        string
	}{
		{"/n/blog.alice/readme.txt", 200, "", "read me", kept},
		{"/n/blog.alice/", 200, "", "readme.txt", "no-cache"}, // a listing
		{"/n/blog.alice", 301, "/n/blog.alice/", "", kept},
		{"/n/blog.alice/docs", 301, "/n/blog.alice/docs/", "", kept},
		{"/n/blog.alice/docs/", 200, "", "<title>docs</title>", kept},
		{"/n/blog.alice/latest", 301, "/n/blog.alice/docs/deep", "", kept},
		{"/n/blog.alice/docs/home", 301, "/n/blog.alice/readme.txt", "", kept},
		{"/n/docs.alice/", 200, "", "<title>docs</title>", "public, max-age=60"},
		{"/n/docs.alice/deep/a.go", 200, "", "package a", "public, max-age=60"},
		{"/n/docs.alice/home", 404, "", "outside the directory", "no-store"}, // it leads above the name
		{"/n/page.alice", 200, "", "package a", "public, max-age=60"},
		{"/n/page.alice/more", 404, "", "", "no-store"},
		{"/n/link.alice", 404, "", "", "no-store"},
		{"/n/BLOG.alice/readme.txt", 308, "/n/blog.alice/readme.txt", "", "no-cache"},
		{"/n/blog.alice/./readme.txt", 200, "", "read me", kept},
		{"/n/blog.alice/%2e%2e/x", 400, "", "", "no-store"},
		{"/n/gone.alice/", 410, "", "withdrawn", "no-store"},
		{"/n/nothing.alice/", 404, "", `no record of nothing.alice`, "no-store"},
		{"/b3/" + root.String() + "/readme.txt", 200, "", "read me", forever},
	} {
		a := do(t, "GET", n.Addrs().Gateway+c.path)
		if a.StatusCode != c.code || a.Header.Get("Location") != c.location || !strings.Contains(a.body, c.body) ||
			a.Header.Get("Cache-Control") != c.caching {
			t.Errorf("%s: %s, Location %q, Cache-Control %q: %.300q", c.path, a.Status, a.Header.Get("Location"),
				a.Header.Get("Cache-Control"), a.body)
		}
	}
	// A stale record, for clients that take one.
	names.set("old.alice", content.Named{Root: root, Path: "readme.txt", Stale: true, Age: 90 * time.Second})
	for header, want := range map[string]struct {
		code int
		age  string
	}{
		"": {422, ""}, "max-stale=59": {422, ""}, "max-stale=60": {200, "90"}, "max-stale": {200, "90"},
	} {
		a := do(t, "GET", n.Addrs().Gateway+"/n/old.alice", "Cache-Control", header)
		if a.StatusCode != want.code || a.Header.Get("Age") != want.age ||
			want.code == 200 && a.Header.Get("Cache-Control") != "public, max-age=0" {
			t.Errorf("Cache-Control %q: %s, %v", header, a.Status, a.Header)
		}
	}
	byName, byAddress := do(t, "GET", n.Addrs().Gateway+"/n/blog.alice/readme.txt"),
		do(t, "GET", n.Addrs().Gateway+"/b3/"+root.String()+"/readme.txt")
	if tag := byName.Header.Get("ETag"); tag == "" || tag != byAddress.Header.Get("ETag") {
		t.Errorf("the ETag of a name is %q, that of the address %q", tag, byAddress.Header.Get("ETag"))
	}
	again := do(t, "GET", n.Addrs().Gateway+"/n/blog.alice/readme.txt", "If-None-Match", byName.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified || again.Header.Get("Cache-Control") != kept {
		t.Errorf("a client that has it: %s, %v", again.Status, again.Header)
	}
	if times := names.times("blog.alice"); times != 1 {
		t.Errorf("the network was asked %d times for a remembered name", times)
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/n/nothing.alice/"); !strings.Contains(a.body, "0000000000000abc") {
		t.Errorf("an error without its lookup: %s", a.body)
	}
}

// TestNameDates: answers below a name have the date of its record. Other content has a later date, whatever its record
// says, and a date in the future is not told.
func TestNameDates(t *testing.T) {
	t.Parallel()
	names := &fakeNames{named: map[string]content.Named{}, asked: map[string]int{}}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Names = names }})
	signed := time.Now().Add(-time.Hour).Truncate(time.Second)
	url, last := n.Addrs().Gateway+"/n/blog.alice/a.txt", ""
	for _, c := range []struct {
		text   string
		signed time.Time
		date   time.Time // zero: none
		code   int       // for a client that knows the last date
	}{
		{"one", signed, signed, 200},
		{"one", signed, signed, 304},
		{"two", signed.Add(999 * time.Millisecond), signed.Add(time.Second), 200}, // in the same second
		{"two", signed.Add(time.Minute), signed.Add(time.Minute), 200},            // only the record is another
		{"one", signed, signed.Add(time.Minute + time.Second), 200},               // it goes back
		{"one", signed, signed.Add(time.Minute + time.Second), 304},
		{"two", time.Time{}, time.Time{}, 200}, // by the DNS
		{"three", time.Now().Add(time.Hour), time.Time{}, 200},
	} {
		root := n.objects.tree(t, map[string]string{"a.txt": c.text})
		names.set("blog.alice", content.Named{Root: root, TTL: time.Minute, Signed: c.signed})
		want := ""
		if !c.date.IsZero() {
			want = c.date.UTC().Format(http.TimeFormat)
		}
		a := do(t, "GET", url, "If-Modified-Since", last)
		if a.StatusCode != c.code || a.Header.Get("Last-Modified") != want || c.code == 200 && a.body != c.text {
			t.Errorf("%+v: %s, %q, %q; want %q", c, a.Status, a.Header.Get("Last-Modified"), a.body, want)
		}
		if want != "" {
			last = want
		}
	}
}
