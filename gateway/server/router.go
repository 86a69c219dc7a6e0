package server

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"allium/gateway/exchange"
	"allium/gateway/hosts"
	"allium/gateway/site"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// route is the route table's entry for one request. Its fields are explained in
// [exchange.Endpoint].
type route struct {
	name      string           // of the path; empty: there is no such page
	methods   []string         // all methods of the path
	page      bool             // errors are pages if the client prefers them
	exempt    bool             // skips admission: no gate, no rate limit, served while draining
	takesBody bool             // accepts a request body
	upload    bool             // admitted by the gate of uploads instead of that of requests
	events    bool             // a stream of events, admitted by the gate of event streams
	op        capability.Op    // the operation that needs a capability; empty: none
	object    b3.Root          // the object that op acts on, if the path names it
	serve     exchange.Handler // nil: there is no such page

	endpoint *exchange.Endpoint // nil if the path does not have the method
	in       exchange.Input     // without its Query
}

// answer parses the query and runs the handler.
func (rt route) answer(w *exchange.Response, r *http.Request) (err error) {
	in := rt.in
	switch {
	case rt.endpoint == nil:
		rt.allow(w.Header())
	case !rt.endpoint.AnyQuery:
		if in.Query, err = exchange.ParseParams(r.URL.RawQuery, rt.endpoint.Params); err != nil {
			return err
		}
	}
	return rt.serve(w, r, in)
}

// allow sets the header Allow to the methods of the path.
func (rt route) allow(h http.Header) {
	h.Set("Allow", strings.Join(rt.methods, ", "))
}

// page is one path of a listener.
type page struct {
	prefix string // of the paths that it matches; empty: it matches one path
	route  route  // for OPTIONS and for methods that the path does not have
	routes []route
}

// router finds the route of a request. It is immutable. It is not a ServeMux, because that
// unescapes a path before it splits it. Here each segment is unescaped alone, so "%2f" stays
// inside its segment.
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
			name: e.Name, page: e.ErrorPages, exempt: e.Exempt, takesBody: len(e.Body) > 0, upload: e.Upload,
			events: e.Events, op: e.Op, serve: e.Serve, endpoint: e, in: exchange.Input{On: on},
		})
		p.route.methods = append(p.route.methods, e.Methods...)
		p.route.page = p.route.page || e.ErrorPages
	}
	for _, p := range rt.pages() {
		if !slices.Contains(p.route.methods, http.MethodOptions) {
			p.route.methods = append(p.route.methods, http.MethodOptions)
		}
		for i := range p.routes {
			p.routes[i].methods = p.route.methods
		}
	}
	rt.all = route{name: "server", exempt: true, serve: optionsAll}
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

// pages returns all pages in no particular order.
func (rt *router) pages() []*page {
	return slices.AppendSeq(slices.Clone(rt.prefixes), maps.Values(rt.exact))
}

// page returns the page of an endpoint's path, and adds it on the first call.
func (rt *router) page(e *exchange.Endpoint) *page {
	prefix, _, open := strings.Cut(e.Path, "{")
	p := &page{route: route{name: e.Name, exempt: true, serve: options}}
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

// route returns the route of an escaped path and a method. For a known path without that
// method, the route's methods list the path's methods. For an unknown path it is the zero route.
func (rt *router) route(path, method string) route {
	if path == "" {
		path = "/" // "GET http://host" has an empty path (RFC 9110 §4.2.3), and so has CONNECT
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
		made.in.Rest = rest
		if made.op != "" && strings.HasSuffix(found.endpoint.Path, "{b3}") {
			made.object = objectOf(rest)
		}
		return made
	}
	return p.route
}

// find returns the route of a request, the request for it, and what the links of its answer begin with. At the host of
// a website it is that of the website.
func find(l *listener, now *live, r *http.Request) (rt route, routed *http.Request, prefix string, told bool) {
	var at hosts.Found
	var err error
	if l.role == Public {
		at, err = l.server.deps.Hosts.Find(r.Host)
	}
	if s := at.Site; s != nil && (s.Domain == "" || slices.Contains(exchange.OfSites, r.Method) ||
		l.server.deps.Hosts.Linking(s.Domain)) {
		return siteRoute(l, r, s, err), r, "", false
	}
	prefix, told = l.prefixOf(now, r)
	rt, routed = l.route(r, prefix)
	if at.Gateway && prefix == "" && coversLabels(l, r) {
		rt.in.Gateway = r.Host
	}
	return rt, routed, prefix, told
}

// siteRoute returns the route of a request to a website. err says what is wrong with its host.
func siteRoute(l *listener, r *http.Request, s *site.Site, err error) route {
	var rt route
	if checkTarget(r) == nil {
		rt = l.server.routers[roles].route(r.URL.EscapedPath(), r.Method)
	}
	rt.in.Site = s
	if err != nil && rt.serve != nil {
		rt.serve = func(*exchange.Response, *http.Request, exchange.Input) error { return err }
	}
	return rt
}

// pagesOf returns whether errors of a route are pages. Where there is no page, they are.
func (l *listener) pagesOf(rt route) exchange.Pages {
	switch {
	case !l.hideInternal || !rt.page && rt.serve != nil:
		return exchange.NoPages
	case rt.in.Site != nil:
		return exchange.SitePages
	}
	return exchange.OwnPages
}

// coversLabels reports whether browsers that reach this listener by the host of r also reach the label hosts below it.
func coversLabels(l *listener, r *http.Request) bool {
	if l.tls == nil {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	covers := l.server.certs.Covers
	return covers(r.Context(), "x.b3."+host) && covers(r.Context(), "x.n3."+host)
}

// serveRoute runs the handler of a route. A host that turns out to be no website is the node's own.
func serveRoute(l *listener, rt route, w *delivery, r *http.Request) error {
	err := rt.answer(&w.Response, r)
	if rt.in.Site == nil || !errors.Is(err, hosts.ErrNoLink) || w.Started() {
		return err
	}
	w.Prefix, w.asked.prefix = l.prefixOf(l.server.live.Load(), r)
	rt, r = l.route(r, w.Prefix)
	w.Pages = l.pagesOf(rt)
	if rt.serve == nil {
		return errNoPage(r)
	}
	if w.Grant, err = l.authorize(rt, &w.Response, r); err != nil {
		return err
	}
	return rt.answer(&w.Response, r)
}

// route returns the route of a request, and the request for it: without the prefix if the proxy left that in the path.
// It is the zero route for a target that is no path.
func (l *listener) route(r *http.Request, prefix string) (route, *http.Request) {
	if checkTarget(r) != nil {
		return route{}, r
	}
	path := r.URL.EscapedPath()
	rt := l.routeOf(path, r.Method)
	if rt.serve != nil || prefix == "" {
		return rt, r
	}
	if below, ok := cutPrefix(path, prefix); ok {
		return l.routeOf(below, r.Method), withoutPrefix(r, prefix)
	}
	return rt, r
}

// routeOf returns the route of an escaped path and a method. Several slashes before a path that somebody reads are one:
// clients put a base URL with a slash and such a path together. The path is served as it is, since a redirect to it
// could lead to another host.
func (l *listener) routeOf(path, method string) route {
	rt := l.router.route(path, method)
	if rt.serve == nil && l.role == Public && slices.Contains(exchange.Reading, method) &&
		strings.HasPrefix(path, "//") {
		rt = l.router.route("/"+strings.TrimLeft(path, "/"), method)
		rt.in.Uneven = true
	}
	return rt
}

// checkTarget refuses a request target that is no path of an HTTP server (RFC 9112 §3.2), such as x:80, mailto:a@b or
// http:///healthz. net/http parses all of them, most of them with an empty path.
func checkTarget(r *http.Request) error {
	u := r.URL
	absolute := (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
	if u.Opaque == "" && (u.Scheme == "" || absolute) && (u.Path != "*" || r.Method == http.MethodOptions) {
		return nil
	}
	return status.Errorf(status.BadRequest, "cannot serve %q: it is no path of this server. "+
		"Send a path that begins with a slash, or a URL with http and a host", exchange.Clip(r.RequestURI))
}

// objectOf returns the address at the end of an escaped path. It returns zero for a malformed
// one, because the handler reports what is wrong with it.
func objectOf(rest string) b3.Root {
	root, _, _ := exchange.ParseObject(rest)
	return root
}

// options answers OPTIONS. The header Allow is set already.
func options(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// optionsAll answers OPTIONS * (RFC 9110 §9.3.7).
func optionsAll(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}
