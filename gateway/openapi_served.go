package gateway

import (
	"net/http"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// served is a page that never changes while the program runs, with its
// validator.
type served struct {
	body []byte
	etag string
	err  error
}

// newServed makes a listener's document when it is asked for, once.
func newServed(on listeners) func() served {
	return sync.OnceValue(func() served {
		body, err := openapiOf(on)
		return served{body: body, etag: etagOf(b3.Sum(body)), err: err}
	})
}

// serveOpenAPI answers with the listener's document.
func (g *Gateway) serveOpenAPI(w *response, r *http.Request, in input) error {
	doc := g.openapi[in.on]()
	if doc.err != nil {
		return doc.err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	switch evaluate(r, doc.etag) {
	case status.Precondition:
		return status.Errorf(status.Precondition, "If-Match does not hold %s", doc.etag)
	case status.NotModified:
		h.Set("ETag", doc.etag)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("ETag", doc.etag)
	return w.send(r, http.StatusOK, mediaOpenAPI, doc.body)
}

// openapiEndpoints are where the document is; each listener has its own.
var openapiEndpoints = []endpoint{{
	id: "openapi", name: "openapi", methods: reading, path: "/openapi.json", on: onEvery, loose: true,
	doc:     "This document: what the listener serves. The admin listener's describes the public listener too.",
	headers: []string{"If-Match", "If-None-Match"},
	answers: []reply{
		{code: http.StatusOK, payload: payload{media: mediaOpenAPI}, headers: []string{"ETag", "Cache-Control"}, doc: "the document"},
		{code: http.StatusNotModified, headers: []string{"ETag", "Cache-Control"}, doc: "the client has it"},
	},
	fails: []status.Outcome{status.Precondition},
	serve: (*Gateway).serveOpenAPI,
}}
