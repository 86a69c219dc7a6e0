package gateway

import (
	"slices"

	"allium/gateway/admin"
	"allium/gateway/console"
	"allium/gateway/content"
	"allium/gateway/discovery"
	"allium/gateway/exchange"
	"allium/gateway/fill"
	"allium/gateway/openapi"
	"allium/gateway/pack"
	"allium/gateway/profiling"
	"allium/gateway/proof"
	"allium/gateway/upload"
	"allium/gateway/weblink"
)

// handlers are the handlers of all routes.
type handlers struct {
	content *content.Handlers
	links   *weblink.Set
	index   *discovery.Handlers
	uploads *upload.Handlers
	packs   *pack.Handlers
	admin   *admin.Handlers
	openapi *openapi.Handlers
	fills   *fill.Handlers
	profile *profiling.Handlers
}

// table returns the route table.
func (h handlers) table() []exchange.Endpoint {
	return slices.Concat(h.content.Endpoints(), h.links.Endpoints(), proof.Endpoints(), h.fills.Endpoints(),
		h.packs.Endpoints(), h.index.Endpoints(), h.uploads.Endpoints(), h.admin.Pages(), console.Endpoints(),
		h.openapi.Endpoints(), h.admin.Endpoints(), h.profile.Endpoints())
}

// routes returns the route table with handlers that cannot serve, for documents.
func routes() []exchange.Endpoint {
	h := handlers{&content.Handlers{}, &weblink.Set{}, &discovery.Handlers{}, &upload.Handlers{},
		&pack.Handlers{}, &admin.Handlers{}, &openapi.Handlers{}, &fill.Handlers{}, &profiling.Handlers{}}
	return h.table()
}

// OpenAPI returns the document of every route: docs/reference/openapi.json.
func OpenAPI() ([]byte, error) { return openapi.JSON(routes(), exchange.OnEvery) }

// HTTPPage returns the page of every route: docs/reference/http.md without its heading.
func HTTPPage() ([]byte, error) { return openapi.Page(routes()) }
