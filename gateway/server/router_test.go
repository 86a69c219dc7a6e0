package server

import (
	"net/http"
	"slices"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

// TestRouter: paths are matched escaped, the longest prefix wins, and a method
// that a path does not have finds the path.
func TestRouter(t *testing.T) { // not parallel: it counts allocations
	serve := func(*exchange.Response, *http.Request, exchange.Input) error { return nil }
	rt := newRouter([]exchange.Endpoint{
		{ID: "get", Name: "o", Path: "/o/{b3}", Methods: exchange.Reading, On: exchange.OnPublic, Serve: serve},
		{
			ID: "put", Name: "o", Path: "/o/{b3}", Methods: []string{"PUT"}, On: exchange.OnPublic, Op: capability.Put,
			Serve: serve,
		},
		{ID: "below", Name: "below", Path: "/o/x/{rest}", Methods: exchange.Getting,
			On: exchange.OnPublic, Serve: serve},
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
		if got.endpoint != nil {
			id = got.endpoint.ID
		}
		if id != c.ID || got.name != c.name || got.in.Rest != c.rest || got.object != c.object ||
			(got.serve == nil) != (c.name == "") {
			t.Errorf("%s %s: %s of %s with %q, %s", c.method, c.path, id, got.name, got.in.Rest, got.object)
		}
	}
	if got := rt.route("/o/abc", "BREW").methods; !slices.Equal(got, []string{"GET", "HEAD", "PUT", "OPTIONS"}) {
		t.Errorf("/o/ has %s", got)
	}
	path := "/o/" + root.String()
	if n := testing.AllocsPerRun(100, func() {
		if rt.route(path, "GET").serve == nil {
			t.Error("no route")
		}
	}); n != 0 {
		t.Errorf("%v allocations to find an object's route", n)
	}
}
