package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// TestTable: what the router and the documents take for granted of the table.
func TestTable(t *testing.T) {
	t.Parallel()
	ids, names := map[string]bool{}, map[string]string{}
	type place struct{ method, path string }
	taken := map[place]exchange.Listeners{}
	for _, e := range routes() {
		if e.ID == "" || ids[e.ID] {
			t.Errorf("%s: the id %q is empty or not the only one", e.Path, e.ID)
		}
		ids[e.ID] = true
		if e.Name == "" || e.Doc == "" || !strings.HasSuffix(e.Doc, ".") || e.Serve == nil || e.On == 0 || len(e.Methods) == 0 || len(e.Answers) == 0 {
			t.Errorf("%s: something is missing of its line", e.ID)
		}
		if i := strings.IndexByte(e.Path, '{'); i >= 0 && (!strings.HasSuffix(e.Path, "}") || e.Path[i-1] != '/') {
			t.Errorf("%s: {…} is not the end of %s", e.ID, e.Path)
		}
		if old, ok := names[e.Path]; ok && old != e.Name {
			t.Errorf("%s is called %s and %s", e.Path, old, e.Name)
		}
		names[e.Path] = e.Name
		for _, m := range e.Methods {
			if taken[place{m, e.Path}]&e.On != 0 {
				t.Errorf("%s %s has two lines", m, e.Path)
			}
			taken[place{m, e.Path}] |= e.On
		}
		for _, p := range e.Params {
			if p.Name == "" || p.Doc == "" {
				t.Errorf("%s: the parameter %q has no name or no sentence", e.ID, p.Name)
			}
		}
	}
}

// TestRouter: paths are matched escaped, the longest prefix wins, and a method
// that a path does not have finds the path.
func TestRouter(t *testing.T) { // not parallel: it counts allocations
	serve := func(*exchange.Response, *http.Request, exchange.Input) error { return nil }
	rt := newRouter([]exchange.Endpoint{
		{ID: "get", Name: "o", Path: "/o/{b3}", Methods: exchange.Reading, On: exchange.OnPublic, Serve: serve},
		{ID: "put", Name: "o", Path: "/o/{b3}", Methods: []string{"PUT"}, On: exchange.OnPublic, Op: capability.Put, Serve: serve},
		{ID: "below", Name: "below", Path: "/o/x/{rest}", Methods: exchange.Getting, On: exchange.OnPublic, Serve: serve},
		{ID: "one", Name: "one", Path: "/o", Methods: []string{"POST", "OPTIONS"}, On: exchange.OnEvery, Serve: serve},
		{ID: "admin", Name: "admin", Path: "/admin", Methods: exchange.Posting, On: exchange.OnAdmin, Serve: serve},
	}, exchange.OnPublic)
	root := b3.Sum([]byte("x"))
	for _, c := range []struct {
		method, path, ID, name, rest string
		object                       b3.Root
	}{
		{"GET", "/o/abc", "get", "o", "abc", b3.Root{}},
		{"HEAD", "/o/", "get", "o", "", b3.Root{}},
		{"GET", "/o/a%2fb/c", "get", "o", "a%2fb/c", b3.Root{}},
		{"PUT", "/o/" + root.String(), "put", "o", root.String(), root},
		{"PUT", "/o/b3%3A" + root.Hex(), "put", "o", "b3%3A" + root.Hex(), root},
		{"PUT", "/o/nonsense", "put", "o", "nonsense", b3.Root{}},
		{"GET", "/o/x/y", "below", "below", "y", b3.Root{}},
		{"GET", "/o%2fabc", "", "", "", b3.Root{}},
		{"GET", "/O/abc", "", "", "", b3.Root{}},
		{"GET", "/admin", "", "", "", b3.Root{}},
		{"POST", "/o", "one", "one", "", b3.Root{}},
		{"OPTIONS", "/o", "one", "one", "", b3.Root{}},
		{"OPTIONS", "/o/abc", "", "o", "", b3.Root{}},
		{"DELETE", "/o/abc", "", "o", "", b3.Root{}},
	} {
		got := rt.route(c.path, c.method)
		id := ""
		if got.Of != nil {
			id = got.Of.ID
		}
		if id != c.ID || got.name != c.name || got.rest != c.rest || got.object != c.object || (got.serve == nil) != (c.name == "") {
			t.Errorf("%s %s: %s of %s with %q, %s", c.method, c.path, id, got.name, got.rest, got.object)
		}
	}
	if got := rt.route("/o/abc", "BREW").methods; !slices.Equal(got, []string{"GET", "HEAD", "PUT", "OPTIONS"}) {
		t.Errorf("/o/ has %s", got)
	}
	path := "/o/" + root.String()
	if n := testing.AllocsPerRun(100, func() {
		if publicRouter.route(path, "GET").serve == nil {
			t.Error("no route")
		}
	}); n != 0 {
		t.Errorf("%v allocations to find an object's route", n)
	}
}

// TestOptions: every path says what it has, waiting for nothing, and a path
// that is not there says so.
func TestOptions(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, e := range routes() {
		if slices.Contains(e.Methods, http.MethodOptions) {
			continue // it has an answer of its own
		}
		for on, base := range map[exchange.Listeners]string{exchange.OnPublic: n.Addrs().Gateway, exchange.OnAdmin: n.Addrs().Admin} {
			path, _, _ := strings.Cut(e.Path, "{")
			a := do(t, "OPTIONS", base+path)
			if e.On&on == 0 {
				continue // another page may be there
			}
			allow := a.Header.Values("Allow")
			if a.StatusCode != http.StatusNoContent || a.body != "" || !slices.Contains(allow, "OPTIONS") {
				t.Errorf("%s: %s %q %s", e.ID, a.Status, a.body, allow)
			}
			for _, m := range e.Methods {
				if !slices.Contains(allow, m) {
					t.Errorf("%s: %s is not among %s", e.ID, m, allow)
				}
			}
		}
	}
	do(t, "OPTIONS", n.Addrs().Gateway+"/nothing").problem(t, status.NotFound)
	do(t, "OPTIONS", n.Addrs().Admin+"/healthz", "Host", "evil.example").problem(t, status.NotAllowed)
	if a := do(t, "BREW", n.Addrs().Admin+"/api/v1/id"); strings.Join(a.Header.Values("Allow"), " ") != "GET OPTIONS" {
		t.Errorf("%s %v", a.Status, a.Header)
	}
}
