package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// TestTable: what the router and the documents take for granted of the table.
func TestTable(t *testing.T) {
	t.Parallel()
	ids, names := map[string]bool{}, map[string]string{}
	type place struct{ method, path string }
	taken := map[place]listeners{}
	for _, e := range endpoints {
		if e.id == "" || ids[e.id] {
			t.Errorf("%s: the id %q is empty or not the only one", e.path, e.id)
		}
		ids[e.id] = true
		if e.name == "" || e.doc == "" || !strings.HasSuffix(e.doc, ".") || e.serve == nil || e.on == 0 || len(e.methods) == 0 || len(e.answers) == 0 {
			t.Errorf("%s: something is missing of its line", e.id)
		}
		if i := strings.IndexByte(e.path, '{'); i >= 0 && (!strings.HasSuffix(e.path, "}") || e.path[i-1] != '/') {
			t.Errorf("%s: {…} is not the end of %s", e.id, e.path)
		}
		if old, ok := names[e.path]; ok && old != e.name {
			t.Errorf("%s is called %s and %s", e.path, old, e.name)
		}
		names[e.path] = e.name
		for _, m := range e.methods {
			if taken[place{m, e.path}]&e.on != 0 {
				t.Errorf("%s %s has two lines", m, e.path)
			}
			taken[place{m, e.path}] |= e.on
		}
		for _, p := range e.params {
			if p.name == "" || p.doc == "" {
				t.Errorf("%s: the parameter %q has no name or no sentence", e.id, p.name)
			}
		}
	}
}

// TestRouter: paths are matched escaped, the longest prefix wins, and a method
// that a path does not have finds the path.
func TestRouter(t *testing.T) { // not parallel: it counts allocations
	serve := func(*Gateway, *response, *http.Request, input) error { return nil }
	rt := newRouter([]endpoint{
		{id: "get", name: "o", path: "/o/{b3}", methods: reading, on: onPublic, serve: serve},
		{id: "put", name: "o", path: "/o/{b3}", methods: []string{"PUT"}, on: onPublic, op: capability.Put, serve: serve},
		{id: "below", name: "below", path: "/o/x/{rest}", methods: getting, on: onPublic, serve: serve},
		{id: "one", name: "one", path: "/o", methods: []string{"POST", "OPTIONS"}, on: onEvery, serve: serve},
		{id: "admin", name: "admin", path: "/admin", methods: posting, on: onAdmin, serve: serve},
	}, onPublic)
	root := b3.Sum([]byte("x"))
	for _, c := range []struct {
		method, path, id, name, rest string
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
		if got.of != nil {
			id = got.of.id
		}
		if id != c.id || got.name != c.name || got.rest != c.rest || got.object != c.object || (got.serve == nil) != (c.name == "") {
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
	for _, e := range endpoints {
		if slices.Contains(e.methods, http.MethodOptions) {
			continue // it has an answer of its own
		}
		for on, base := range map[listeners]string{onPublic: n.Addrs().Gateway, onAdmin: n.Addrs().Admin} {
			path, _, _ := strings.Cut(e.path, "{")
			a := do(t, "OPTIONS", base+path)
			if e.on&on == 0 {
				continue // another page may be there
			}
			allow := a.Header.Values("Allow")
			if a.StatusCode != http.StatusNoContent || a.body != "" || !slices.Contains(allow, "OPTIONS") {
				t.Errorf("%s: %s %q %s", e.id, a.Status, a.body, allow)
			}
			for _, m := range e.methods {
				if !slices.Contains(allow, m) {
					t.Errorf("%s: %s is not among %s", e.id, m, allow)
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
