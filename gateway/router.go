package gateway

import (
	"net/http"
	"strings"
)

// publicRoute finds the page of an escaped path on the public listener. It is
// not a ServeMux because that unescapes before it splits: here a segment is
// unescaped alone, and "%2f" stays inside it.
func (g *Gateway) publicRoute(path string) route {
	switch path {
	case "/":
		return route{name: "landing", methods: reading, serve: g.landing}
	case "/favicon.ico":
		return route{name: "favicon", methods: reading, serve: favicon}
	case "/b3", "/b3/":
		return route{name: "open", methods: reading, serve: openKey}
	}
	if rest, ok := strings.CutPrefix(path, "/o/"); ok {
		return route{name: "object", methods: reading, serve: func(w *response, r *http.Request) error { return g.object(w, r, rest) }}
	}
	if rest, ok := strings.CutPrefix(path, "/b3/"); ok {
		return route{name: "browse", methods: reading, serve: func(w *response, r *http.Request) error { return g.browse(w, r, rest) }}
	}
	return g.health(path)
}

// health finds the pages that every listener has.
func (g *Gateway) health(path string) route {
	switch path {
	case "/healthz":
		return route{name: "healthz", methods: reading, free: true, serve: healthz}
	case "/readyz":
		return route{name: "readyz", methods: reading, free: true, serve: g.readyz}
	}
	return route{}
}

// adminRoute finds the page of an escaped path on the admin listener and the
// socket.
func (g *Gateway) adminRoute(path string) route {
	switch path {
	case "/metrics":
		return route{name: "metrics", methods: reading, free: true, serve: g.metricsPage}
	case "/version", "/api/v1/version":
		return route{name: "version", methods: reading, free: true, serve: g.version}
	case "/limits", "/api/v1/limits":
		return route{name: "limits", methods: reading, free: true, serve: g.limits}
	}
	if name, ok := strings.CutPrefix(path, "/api/v1/"); ok {
		return g.apiRoute(name)
	}
	return g.health(path)
}
