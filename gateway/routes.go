package gateway

import (
	"slices"

	"allium/gateway/admin"
	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/openapi"
	"allium/gateway/upload"
)

// handlers are the rooms that the routes lead to.
type handlers struct {
	content *content.Handlers
	uploads *upload.Handlers
	admin   *admin.Handlers
	openapi *openapi.Handlers
}

// table is the table of routes.
func (h handlers) table() []exchange.Endpoint {
	return slices.Concat(h.content.Endpoints(), h.uploads.Endpoints(), h.admin.Pages(), h.openapi.Endpoints(), h.admin.Endpoints())
}

// routes is the table without anything behind it, for documents.
func routes() []exchange.Endpoint {
	return handlers{&content.Handlers{}, &upload.Handlers{}, &admin.Handlers{}, &openapi.Handlers{}}.table()
}

// OpenAPI is the document of every route, as docs/reference/openapi.json has it.
func OpenAPI() ([]byte, error) { return openapi.JSON(routes(), exchange.OnEvery) }

// HTTPPage is docs/reference/http.md without its heading: the document of every
// route for people.
func HTTPPage() ([]byte, error) { return openapi.Page(routes()) }
