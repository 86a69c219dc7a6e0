package gateway

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"allium/gateway/content"
	"allium/gateway/policy/denylist"
	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// seenObjects are objects that say which of them were looked up.
type seenObjects struct {
	*fakeObjects
	memory bool // everything lies in RAM

	mu     sync.Mutex
	looked []b3.Root
}

func (w *seenObjects) see(root b3.Root) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = append(w.looked, root)
}

func (w *seenObjects) lookups(of b3.Root) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, root := range w.looked {
		if root == of {
			n++
		}
	}
	return n
}

func (w *seenObjects) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	w.see(root)
	return w.fakeObjects.Open(ctx, root, o)
}

func (w *seenObjects) Memory(root b3.Root) []byte {
	w.see(root)
	w.fakeObjects.mu.Lock()
	defer w.fakeObjects.mu.Unlock()
	if o := w.m[root]; w.memory && o != nil {
		return o.data
	}
	return nil
}

func (w *seenObjects) Cached(root b3.Root) bool { return w.Memory(root) != nil }

// denying runs a gateway with a denylist of those lines.
func denying(t testing.TB, memory bool, lines func(*fakeObjects) []string) (*testNode, *seenObjects,
	func(lines ...string) error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "denylist.txt")
	write := func(lines ...string) error { return os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	var w *seenObjects
	var list *denylist.List
	n := startWith(t, hooks{deps: func(d *Deps) {
		w = &seenObjects{fakeObjects: d.Objects.(*fakeObjects), memory: memory}
		err := write(lines(w.fakeObjects)...)
		if err == nil {
			list, err = denylist.New(denylist.Config{Files: []string{name}},
				denylist.Deps{Env: env.Env{Metrics: d.Metrics}})
		}
		if err != nil {
			t.Fatal(err)
		}
		d.Objects, d.Denylist = w, list.At("gateway")
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = list.Run(ctx, func() { close(ready) }) })
	<-ready
	t.Cleanup(func() { cancel(); wg.Wait() })
	return n, w, func(lines ...string) error { return errors.Join(write(lines...), list.Reload(t.Context())) }
}

// everyByte percent-encodes all of s.
func everyByte(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

// TestDeniedUnderEveryName: whatever names a denied object is answered 451, and
// nothing looks for it.
func TestDeniedUnderEveryName(t *testing.T) {
	t.Parallel()
	for _, memory := range []bool{false, true} {
		t.Run(fmt.Sprintf("memory %t", memory), func(t *testing.T) {
			t.Parallel()
			var dir, other, sub, index b3.Root
			bad := b3.Sum([]byte("bad"))
			subBad := b3.Sum([]byte("in a denied directory"))
			n, objects, _ := denying(t, memory, func(o *fakeObjects) []string {
				dir = o.tree(t, map[string]string{
					"a/b": "bad", "ok": "good", "été/x": "bad", "to": "-> a/b",
					"path/x": "by its path", "path/y/z": "below",
				})
				other = o.tree(t, map[string]string{"elsewhere": "bad", "ok": "good", "sub/f": "in a denied directory"})
				sub = o.tree(t, map[string]string{"f": "in a denied directory"})
				index = o.tree(t, map[string]string{"index.html": "bad"})
				return []string{bad.CID().String(), sub.String(), dir.String() + "/path"}
			})
			gw, admin := n.Addrs().Gateway, n.Addrs().Admin
			key := bad.String()
			type request struct{ method, url, header, value, body string }
			var all []request
			for _, method := range []string{"GET", "HEAD"} {
				for _, page := range []string{
					"/o/" + key, "/o/b3%3A" + bad.Hex(), "/o/b3%3a" + bad.Hex(), "/o/" + everyByte(key),
					"/o/" + key + "?format=bao", "/o/" + key + "?format=bao&bytes=0-1", "/o/" + key + "?x=y",
					"/b3/" + key, "/b3/" + everyByte(key), "/b3/" + key + "/", "/b3/" + key + "/below",
					"/b3/" + key + "?format=json",
					"/b3/" + dir.String() + "/a/b", "/b3/" + dir.String() + "/%61/%62",
					"/b3/" + dir.String() + "/%c3%a9t%c3%a9/x",
					"/b3/" + other.String() + "/elsewhere", "/b3/" + other.String() + "/sub",
					"/b3/" + other.String() + "/sub/",
					"/b3/" + other.String() + "/sub/f",
					"/b3/" + sub.String() + "/", "/b3/" + sub.String() + "/f", "/o/" + sub.String(),
					"/b3/" + dir.String() + "/path", "/b3/" + dir.String() + "/path/",
					"/b3/" + dir.String() + "/path/x", "/b3/" +
						dir.String() + "/path/y/z", "/b3/" + dir.String() + "/%70ath/x",
					"/b3/" + index.String() + "/",
				} {
					all = append(all, request{method: method, url: gw + page})
				}
				for _, h := range [][2]string{
					{"Range", "bytes=0-0"}, {"If-None-Match", `"` + key + `"`}, {"If-None-Match", "*"},
					{"If-Match", `"` + key + `"`},
					{"Accept", "application/vnd.allium.bao"},
					{"If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"}, {"Cache-Control", "only-if-cached"},
				} {
					all = append(all, request{method: method, url: gw + "/o/" + key, header: h[0], value: h[1]},
						request{
							method: method, url: gw + "/b3/" + other.String() + "/elsewhere", header: h[0], value: h[1],
						})
				}
			}
			token := "Bearer may-put,pin,unpin,announce,repair,fetch"
			all = append(all,
				request{"PUT", gw + "/o/" + key, "Authorization", token, "bad"},
				request{"PUT", gw + "/o/b3%3A" + bad.Hex(), "Authorization", token, "bad"},
				request{"POST", admin + "/admin/pin", "Authorization", token, `{"key":"` + key + `"}`},
				request{"POST", admin + "/admin/pin", "Authorization", token, `{"key":"` + dir.String() + `/path/x"}`},
				request{"POST", admin + "/admin/pin", "Authorization", token, `{"key":"b3\u003a` + bad.Hex() + `"}`},
				request{"POST", admin + "/admin/reindex", "Authorization", token, `{"key":"` + key + `"}`},
				request{"POST", admin + "/api/v1/pin/add?key=" + url.QueryEscape(key), "Authorization", token, ""},
				request{"POST", admin + "/api/v1/pin/add?key=" + everyByte(key+"/x"), "Authorization", token, ""},
				request{"POST", admin + "/api/v1/fetch?key=" + key, "Authorization", token, ""},
				request{"POST", admin + "/api/v1/announce?key=" + key, "Authorization", token, ""},
				request{"POST", admin + "/api/v1/files", "Authorization", token, string(other[:]) + string(bad[:])},
				request{"POST", admin + "/api/v1/keep", "Authorization", token, string(other[:]) + string(bad[:])},
				request{"GET", admin + "/api/v1/get?key=" + key, "", "", ""},
				request{"GET", admin + "/api/v1/cat?key=" + dir.String() + "/path/x", "", "", ""},
				request{"GET", admin + "/api/v1/ls?key=" + key, "", "", ""},
				request{"GET", admin + "/api/v1/providers?key=" + key, "", "", ""},
				request{"GET", admin + "/api/v1/diff?from=" + key + "&to=" + other.String(), "", "", ""},
				request{"GET", admin + "/api/v1/diff?to=" + key + "&from=" + other.String(), "", "", ""},
			)
			for _, form := range []string{
				bad.Hex(), strings.ToUpper(bad.Hex()),
				base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(bad[:]),
				"/b3/" + bad.Hex(), "ipfs://" + bad.CID().String(),
			} {
				all = append(all, request{"GET", admin + "/api/v1/cat?key=" + url.QueryEscape(form), "", "", ""},
					request{"GET", admin + "/api/v1/diff?from=" + url.QueryEscape(form) + "&to=" + other.String(), "",
						"", ""},
					request{"POST", admin + "/admin/pin", "Authorization", token, `{"key":"` + form + `"}`})
			}
			for _, q := range all {
				var headers []string
				if q.header != "" {
					headers = []string{q.header, q.value}
				}
				a := doBody(t, q.method, q.url, strings.NewReader(q.body), headers...)
				if a.StatusCode != http.StatusUnavailableForLegalReasons {
					t.Errorf("%s %s %s %s: %s %s", q.method, q.url, q.header, q.value, a.Status, a.body)
					continue
				}
				a.problem(t, status.Denied)
			}
			for name, root := range map[string]b3.Root{"the object": bad, "the directory": sub, "what is below it": subBad} {
				if got := objects.lookups(root); got != 0 {
					t.Errorf("%s was looked up %d times", name, got)
				}
			}
			if calls := n.node.calls(); len(calls) != 0 {
				t.Errorf("the node was asked to %v", calls)
			}
			if _, ok := objects.m[bad]; !ok {
				t.Error("the test's object is not there: it cannot fail")
			}

			// Beside it: uppercase is redirected first, and says nothing of the list.
			if a := do(t, "GET", gw+"/o/b3:"+
				strings.ToUpper(bad.Hex())); a.StatusCode != http.StatusPermanentRedirect ||
				a.Header.Get("Location") != "/o/"+key {
				t.Errorf("uppercase: %s %s", a.Status, a.Header.Get("Location"))
			}
			// A listing hides no names, and a link to what is denied is followed to its answer.
			if a := do(t, "GET", gw+"/b3/"+dir.String()+"/"); a.StatusCode != http.StatusOK ||
				!strings.Contains(a.body, "path") {
				t.Errorf("listing: %s", a.Status)
			}
			if a := do(t, "GET", gw+"/b3/"+dir.String()+"/a/"); a.StatusCode != http.StatusOK ||
				!strings.Contains(a.body, key) && !strings.Contains(a.body, ">b<") {
				t.Errorf("listing: %s %s", a.Status, a.body)
			}
			if a := do(t, "GET", gw+"/b3/"+dir.String()+"/to"); a.StatusCode/100 != 3 {
				t.Errorf("link: %s", a.Status)
			}
			for _, page := range []string{"/b3/" + dir.String() + "/ok",
				"/b3/" + other.String() + "/ok", "/o/" + dir.String()} {
				if a := do(t, "GET", gw+page); a.StatusCode != http.StatusOK {
					t.Errorf("%s: %s", page, a.Status)
				}
			}
			// What an owner does with what is here goes on.
			for _, c := range []string{"pin/rm?key=" + key, "verify?key=" + key} {
				if a := doBody(t, "POST", admin+"/api/v1/"+c, nil, "Authorization",
					token); a.StatusCode != http.StatusOK {
					t.Errorf("%s: %s %s", c, a.Status, a.body)
				}
			}
			post(t, admin+"/admin/unpin", `{"key":"`+key+`"}`, "Authorization", token)
			if calls := n.node.calls(); !slices.Contains(calls, "unpin "+key+" ") {
				t.Errorf("the node was asked to %v", calls)
			}
		})
	}
}

// TestDeniedWhileAsked: an entry holds from the request after the reload, while
// others are answered, and no longer than it is there.
func TestDeniedWhileAsked(t *testing.T) {
	t.Parallel()
	n, _, reload := denying(t, true, func(o *fakeObjects) []string {
		o.put([]byte("bad"))
		o.put([]byte("good"))
		return nil
	})
	bad, good := n.Addrs().Gateway+"/o/"+b3.Sum([]byte("bad")).String(),
		n.Addrs().Gateway+"/o/"+b3.Sum([]byte("good")).String()
	var wg sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				for _, page := range []string{good, bad} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := transport.RoundTrip(req)
					if err != nil {
						t.Error(err)
						return
					}
					_ = resp.Body.Close()
					if c := resp.StatusCode; c != http.StatusOK &&
						(page == good || c != http.StatusUnavailableForLegalReasons) {
						t.Errorf("%s: %s", page, resp.Status)
					}
				}
			}
		})
	}
	for i := range 5 {
		if err := reload(b3.Sum([]byte("bad")).String()); err != nil {
			t.Error(err)
		}
		do(t, "GET", bad).problem(t, status.Denied)
		if err := reload(fmt.Sprintf("# nothing, the %dth time", i)); err != nil {
			t.Error(err)
		}
		if a := do(t, "GET", bad); a.body != "bad" {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
	done.Store(true)
	wg.Wait()
}
