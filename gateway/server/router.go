package server

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

// route is what the table says of one request.
type route struct {
	name    string           // of the path; empty: there is no such page
	methods []string         // that the path answers
	page    bool             // people look at the path: its errors are pages where the client wants that
	free    bool             // waits for nothing: no gate, no rate, no drain
	streams bool             // takes a request body
	upload  bool             // takes one of the places for uploads instead of one in flight
	op      capability.Op    // what the client must be allowed to do; empty: nothing
	object  b3.Root          // what it does that to, where the path says
	serve   exchange.Handler // nil: there is no such page

	endpoint *exchange.Endpoint // nil where the path has no such method
	rest     string             // what stands for the path's "{…}", escaped
	on       exchange.Listeners // that the request came to
}

// answer runs the handler.
func (rt route) answer(w *exchange.Response, r *http.Request) (err error) {
	in := exchange.Input{Rest: rt.rest, On: rt.on}
	switch {
	case rt.endpoint == nil:
		rt.allow(w.Header())
	case !rt.endpoint.Loose:
		if in.Query, err = exchange.ParseParams(r.URL.RawQuery, rt.endpoint.Params); err != nil {
			return err
		}
	}
	return rt.serve(w, r, in)
}

// allow tells the client which methods the path has.
func (rt route) allow(h http.Header) {
	h.Set("Allow", strings.Join(rt.methods, ", "))
}

// page is one path of a listener.
type page struct {
	prefix string // of the paths it stands for; empty: one path alone
	route  route  // for the methods it does not have, OPTIONS among them
	routes []route
}

// router finds the route of a request. It is not a ServeMux because that
// unescapes before it splits: here a segment is unescaped alone, and "%2f" stays
// inside it.
type router struct {
	all      route // OPTIONS *
	exact    map[string]*page
	prefixes []*page // longest first
}

func newRouter(table []exchange.Endpoint, on exchange.Listeners) *router {
	rt := &router{exact: map[string]*page{}}
	for i := range table {
		e := &table[i]
		if e.On&on == 0 {
			continue
		}
		p := rt.page(e)
		p.routes = append(p.routes, route{
			name: e.Name, page: e.Page, free: e.Free, streams: len(e.Body) > 0, upload: e.Upload, op: e.Op, serve: e.Serve, endpoint: e, on: on,
		})
		p.route.methods = append(p.route.methods, e.Methods...)
		p.route.page = p.route.page || e.Page
	}
	for _, p := range rt.pages() {
		if !slices.Contains(p.route.methods, http.MethodOptions) {
			p.route.methods = append(p.route.methods, http.MethodOptions)
		}
		for i := range p.routes {
			p.routes[i].methods = p.route.methods
		}
	}
	rt.all = route{name: "server", free: true, serve: optionsAll}
	for _, p := range rt.pages() {
		for _, m := range p.route.methods {
			if !slices.Contains(rt.all.methods, m) {
				rt.all.methods = append(rt.all.methods, m)
			}
		}
	}
	slices.Sort(rt.all.methods)
	slices.SortFunc(rt.prefixes, func(a, b *page) int { return len(b.prefix) - len(a.prefix) })
	return rt
}

// pages are all of them, in no order.
func (rt *router) pages() []*page {
	return slices.AppendSeq(slices.Clone(rt.prefixes), maps.Values(rt.exact))
}

// page is the page of an endpoint's path, made on first use.
func (rt *router) page(e *exchange.Endpoint) *page {
	prefix, _, open := strings.Cut(e.Path, "{")
	p := &page{route: route{name: e.Name, free: true, serve: options}}
	if !open {
		if old := rt.exact[e.Path]; old != nil {
			return old
		}
		rt.exact[e.Path] = p
		return p
	}
	if i := slices.IndexFunc(rt.prefixes, func(p *page) bool { return p.prefix == prefix }); i >= 0 {
		return rt.prefixes[i]
	}
	p.prefix = prefix
	rt.prefixes = append(rt.prefixes, p)
	return p
}

// route finds the route of an escaped path and a method. Where the path is
// known and the method is not, the route's methods say what it has.
func (rt *router) route(path, method string) route {
	if path == "" {
		path = "/" // RFC 9110 §4.2.3: "GET http://host"; CONNECT has none either
	}
	if path == "*" && method == http.MethodOptions {
		return rt.all
	}
	p, rest := rt.exact[path], ""
	for i := 0; p == nil && i < len(rt.prefixes); i++ {
		if below, ok := strings.CutPrefix(path, rt.prefixes[i].prefix); ok {
			p, rest = rt.prefixes[i], below
		}
	}
	if p == nil {
		return route{}
	}
	for i := range p.routes {
		found := &p.routes[i]
		if !slices.Contains(found.endpoint.Methods, method) {
			continue
		}
		made := *found
		made.rest = rest
		if made.op != "" && strings.HasSuffix(found.endpoint.Path, "{b3}") {
			made.object = objectOf(rest)
		}
		return made
	}
	return p.route
}

// objectOf is the address that an escaped path ends with, zero where it is none:
// the handler says what is wrong with it.
func objectOf(rest string) b3.Root {
	key, err := url.PathUnescape(rest)
	if err != nil {
		return b3.Root{}
	}
	root, _ := b3.Parse(key)
	return root
}

// options says what a path answers.
func options(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// optionsAll says what the listener answers at all (RFC 9110 §9.3.7).
func optionsAll(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}
