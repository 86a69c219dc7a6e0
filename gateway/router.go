package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// endpoints is the table of routes.
var endpoints = slices.Concat(contentEndpoints, uploadEndpoints, opsEndpoints, openapiEndpoints, adminEndpoints, apiEndpoints)

// contentEndpoints are the pages of the public listener.
var contentEndpoints = []endpoint{
	{
		id: "landing", name: "landing", methods: reading, path: "/", on: onPublic, loose: true,
		doc:     "The first page: what this is, whether it is ready, and a field to open an address with.",
		answers: []reply{{code: http.StatusOK, payload: payload{media: mediaHTML}, headers: []string{"Cache-Control", "Content-Security-Policy"}, doc: "the page"}},
		serve:   func(g *Gateway, w *response, r *http.Request, _ input) error { return g.landing(w, r) },
	},
	{
		id: "favicon", name: "favicon", methods: reading, path: "/favicon.ico", on: onPublic, loose: true,
		doc:     "The icon that browsers ask for.",
		answers: []reply{{code: http.StatusOK, payload: payload{media: "image/svg+xml"}, headers: []string{"Cache-Control", "Content-Security-Policy"}, doc: "the icon"}},
		serve:   func(_ *Gateway, w *response, r *http.Request, _ input) error { return favicon(w, r) },
	},
	{
		id: "verifyModule", name: "module", methods: reading, path: "/verify.mjs", on: onPublic, loose: true,
		doc:     "A JavaScript module that checks verified encodings in a browser (docs/HTTP.md).",
		headers: []string{"If-Match", "If-None-Match"},
		answers: []reply{
			{code: http.StatusOK, payload: payload{media: "text/javascript; charset=utf-8"}, headers: []string{"ETag", "Cache-Control", "Cross-Origin-Resource-Policy"}, doc: "the module"},
			{code: http.StatusNotModified, headers: []string{"ETag", "Cache-Control", "Cross-Origin-Resource-Policy"}, doc: "the client has it"},
		},
		fails: []status.Outcome{status.Precondition},
		serve: func(_ *Gateway, w *response, r *http.Request, _ input) error { return module(w, r) },
	},
	openEndpoint("open", "/b3"), openEndpoint("openSlash", "/b3/"),
	{
		id: "getObject", name: "object", methods: reading, path: "/o/{b3}", on: onPublic, loose: true,
		doc:  "The bytes of an object, each chunk group proved before it leaves.",
		more: "One range at a time, unless the operator lets more be asked for (`gateway.multi_range`). An address in uppercase digits is redirected. What is not here is looked for and fetched from peers, unless Cache-Control has only-if-cached. With format=bao, or an Accept that names " + bao.MediaType + ", the answer is the verified encoding (docs/HTTP.md).",
		params: []param{
			{name: "format", of: []string{"bao"}, doc: "the verified encoding: the size, 8 bytes little-endian, and the tree's parents and chunk groups in pre-order"},
			{name: "range", kind: someText, doc: "with format=bao: of that range of the object's bytes, first-last, first- or -count"},
		},
		headers: append([]string{"Accept"}, contentHeaders...),
		answers: slices.Concat(contentAnswers, baoAnswers, []reply{{code: http.StatusPermanentRedirect, headers: []string{"Location", "Cache-Control"}, doc: "the address in lowercase digits"}}),
		fails:   contentFails,
		serve:   func(g *Gateway, w *response, r *http.Request, in input) error { return g.object(w, r, in.rest) },
	},
	{
		id: "browse", name: "browse", methods: reading, path: "/b3/{path}", on: onPublic, loose: true,
		doc:     "A file, or a directory by its index.html or a listing: {path} is an address and a path below it.",
		more:    "A directory without the slash at its end is redirected, and so is a symbolic link to what it names inside the tree. `Accept: application/json` without text/html asks for a listing as JSON.",
		params:  []param{{name: "format", of: []string{"html", "json"}, doc: "a listing in that form, also where there is an index.html"}},
		headers: contentHeaders,
		answers: slices.Concat(contentAnswers, []reply{
			{code: http.StatusOK, payload: jsonBody[client.Listing](), headers: []string{"ETag", "Vary"}, doc: "a listing; its ETag is weak"},
			{code: http.StatusOK, payload: payload{media: mediaHTML}, headers: []string{"ETag", "Vary"}, doc: "a listing; its ETag is weak"},
			{code: http.StatusMovedPermanently, headers: []string{"Location", "Cache-Control"}, doc: "where the directory's slash or the link leads"},
			{code: http.StatusPermanentRedirect, headers: []string{"Location", "Cache-Control"}, doc: "the address in lowercase digits"},
		}),
		fails: contentFails,
		serve: func(g *Gateway, w *response, r *http.Request, in input) error { return g.browse(w, r, in.rest) },
	},
}

// What every endpoint that serves an object's bytes has in common.
var (
	contentHeaders = []string{"Range", "If-Match", "If-None-Match", "If-Range", "Cache-Control", "Request-Timeout"}
	contentAnswers = []reply{
		{code: http.StatusOK, payload: payload{media: mediaAny}, headers: objectHeaders, doc: "the whole"},
		{code: http.StatusPartialContent, payload: payload{media: mediaAny}, headers: append([]string{"Content-Range"}, objectHeaders...), doc: "the range"},
		{code: http.StatusPartialContent, payload: payload{media: mediaParts}, headers: objectHeaders, doc: "the ranges, each a part with its own Content-Range, where several are served"},
		{code: http.StatusNotModified, headers: []string{"ETag", "Cache-Control", "Vary", "Link", "Accept-Ranges", "Content-Location"}, doc: "the client has it"},
	}
	baoAnswers = []reply{
		{code: http.StatusOK, payload: payload{media: bao.MediaType}, headers: []string{"ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Location"}, doc: "the verified encoding, of a range where the query asks for one"},
		{code: http.StatusPartialContent, payload: payload{media: bao.MediaType}, headers: []string{"Content-Range", "ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Location"}, doc: "the verified encoding of the range in the header Range, which counts the object's bytes"},
	}
	objectHeaders = []string{"Link", "ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Security-Policy", "Cross-Origin-Resource-Policy", "Content-Disposition"}
	contentFails  = []status.Outcome{
		status.BadAddress, status.NotAllowed, status.NotFound, status.Gone, status.Precondition, status.BadRange, status.Denied,
		status.Corrupt, status.Upstream, status.BreakerOpen, status.NotReady, status.Amnesia, status.TransportDown, status.NoBootstrap,
		status.Timeout, status.HopExceeded,
	}
)

func openEndpoint(id, path string) endpoint {
	return endpoint{
		id: id, name: "open", methods: reading, path: path, on: onPublic, loose: true,
		doc:     "Where the landing page's field leads: redirects to the page of an address.",
		params:  []param{{name: "key", kind: someText, doc: "b3:… with or without a path below it"}},
		answers: []reply{{code: http.StatusSeeOther, headers: []string{"Location", "Cache-Control"}, doc: "the page of that key"}},
		fails:   []status.Outcome{status.BadAddress},
		serve:   func(_ *Gateway, w *response, r *http.Request, _ input) error { return openKey(w, r) },
	}
}

// listeners' own pages, which wait for nothing.
var opsEndpoints = []endpoint{
	{
		id: "healthz", name: "healthz", methods: reading, path: "/healthz", on: onEvery, free: true, loose: true,
		doc:     "Says that the process runs: ok until it exits.",
		answers: []reply{{code: http.StatusOK, payload: payload{media: mediaText}, headers: []string{"Cache-Control"}, doc: "ok"}},
		serve:   func(_ *Gateway, w *response, r *http.Request, _ input) error { return healthz(w, r) },
	},
	{
		id: "readyz", name: "readyz", methods: reading, path: "/readyz", on: onEvery, free: true, loose: true,
		doc:     "The gates of readiness, in the order they open.",
		answers: append(value[client.Readiness]("reads and writes are served"), reply{code: http.StatusServiceUnavailable, payload: jsonBody[client.Readiness](), headers: []string{"Cache-Control", "Retry-After", "X-Reason"}, doc: "some gate is shut"}),
		serve:   func(g *Gateway, w *response, r *http.Request, _ input) error { return g.readyz(w, r) },
	},
	{
		id: "metrics", name: "metrics", methods: reading, path: "/metrics", on: onAdmin, free: true, loose: true,
		doc:     "Metrics for Prometheus, see metrics.md.",
		answers: []reply{{code: http.StatusOK, payload: payload{media: "text/plain"}, headers: []string{"Vary"}, doc: "the exposition"}},
		serve:   func(g *Gateway, w *response, r *http.Request, _ input) error { return g.metricsPage(w, r) },
	},
	versionEndpoint("version", "/version"), versionEndpoint("apiVersion", "/api/v1/version"),
	limitsEndpoint("limits", "/limits"), limitsEndpoint("apiLimits", "/api/v1/limits"),
}

func versionEndpoint(id, path string) endpoint {
	return endpoint{
		id: id, name: "version", methods: reading, path: path, on: onAdmin, free: true, loose: true,
		doc: "Which program runs.", answers: value[client.Version]("the program"),
		serve: func(g *Gateway, w *response, r *http.Request, _ input) error { return g.version(w, r) },
	}
}

func limitsEndpoint(id, path string) endpoint {
	return endpoint{
		id: id, name: "limits", methods: reading, path: path, on: onAdmin, free: true, loose: true,
		doc: "Every bound of the node with what is in use of it.", answers: value[client.Limits]("the bounds"),
		serve: func(g *Gateway, w *response, r *http.Request, _ input) error { return g.limits(w, r) },
	}
}

// route is what the table says of one request.
type route struct {
	name    string        // of the path; empty: there is no such page
	methods []string      // that the path answers
	free    bool          // waits for nothing: no gate, no rate, no drain
	streams bool          // takes a request body
	upload  bool          // takes one of the places for uploads instead of one in flight
	op      capability.Op // what the client must be allowed to do; empty: nothing
	object  b3.Root       // what it does that to, where the path says
	serve   handler       // nil: there is no such page

	of   *endpoint // nil where the path has no such method
	rest string    // what stands for the path's "{…}", escaped
	on   listeners // that the request came to
}

// answer runs the handler.
func (rt route) answer(g *Gateway, w *response, r *http.Request) error {
	in := input{rest: rt.rest, on: rt.on}
	switch {
	case rt.of == nil:
		rt.allow(w)
	case !rt.of.loose:
		var err error
		if in.q, err = parseParams(r.URL.RawQuery, rt.of.params); err != nil {
			return err
		}
		if err := g.deniedKeys(rt.of, in.q); err != nil {
			return err
		}
	}
	return rt.serve(g, w, r, in)
}

// allow tells the client which methods the path has.
func (rt route) allow(w *response) {
	for _, m := range rt.methods {
		w.Header().Add("Allow", m)
	}
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
	exact    map[string]*page
	prefixes []*page // longest first
}

// The routers of the listeners; built once, read-only.
var (
	publicRouter = newRouter(endpoints, onPublic)
	adminRouter  = newRouter(endpoints, onAdmin)
)

func newRouter(table []endpoint, on listeners) *router {
	rt := &router{exact: map[string]*page{}}
	for i := range table {
		e := &table[i]
		if e.on&on == 0 {
			continue
		}
		p := rt.page(e)
		p.routes = append(p.routes, route{
			name: e.name, free: e.free, streams: len(e.body) > 0, upload: e.upload, op: e.op, serve: e.serve, of: e, on: on,
		})
		p.route.methods = append(p.route.methods, e.methods...)
	}
	for _, p := range rt.pages() {
		if !slices.Contains(p.route.methods, http.MethodOptions) {
			p.route.methods = append(p.route.methods, http.MethodOptions)
		}
		for i := range p.routes {
			p.routes[i].methods = p.route.methods
		}
	}
	slices.SortFunc(rt.prefixes, func(a, b *page) int { return len(b.prefix) - len(a.prefix) })
	return rt
}

// pages are all of them, in no order.
func (rt *router) pages() []*page {
	return slices.AppendSeq(slices.Clone(rt.prefixes), maps.Values(rt.exact))
}

// page is the page of an endpoint's path, made on first use.
func (rt *router) page(e *endpoint) *page {
	prefix, _, open := strings.Cut(e.path, "{")
	p := &page{route: route{name: e.name, free: true, serve: options}}
	if !open {
		if old := rt.exact[e.path]; old != nil {
			return old
		}
		rt.exact[e.path] = p
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
		if !slices.Contains(found.of.methods, method) {
			continue
		}
		made := *found
		made.rest = rest
		if made.op != "" && strings.HasSuffix(found.of.path, "{b3}") {
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
func options(_ *Gateway, w *response, _ *http.Request, _ input) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}
