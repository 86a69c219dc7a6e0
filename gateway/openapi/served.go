package openapi

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"

	"allium/gateway/exchange"
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

// below returns the document of a listener whose paths lie below a prefix.
func (s served) below(prefix string) served {
	body := bytes.Replace(s.body, fmt.Appendf(nil, "%q", publicServer.URL), fmt.Appendf(nil, "%q", prefix), 1)
	return served{body: body, etag: exchange.ETag(b3.Sum(body))}
}

// newServed makes a listener's document when it is asked for, once.
func newServed(table []exchange.Endpoint, on exchange.Listeners) func() served {
	return sync.OnceValue(func() served {
		body, err := JSON(table, on)
		return served{body: body, etag: exchange.ETag(b3.Sum(body)), err: err}
	})
}

// serve answers with the listener's document.
func (g *Handlers) serve(w *exchange.Response, r *http.Request, in exchange.Input) error {
	doc := g.docs[in.On]()
	if doc.err != nil {
		return doc.err
	}
	if w.Prefix != "" {
		doc = doc.below(w.Prefix)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	switch exchange.Evaluate(r, doc.etag) {
	case status.Precondition:
		return status.Errorf(status.Precondition, "If-Match does not hold %s", doc.etag)
	case status.NotModified:
		h.Set("ETag", doc.etag)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("ETag", doc.etag)
	return w.Send(r, http.StatusOK, exchange.MediaOpenAPI, doc.body)
}

// Handlers answer with the documents of the listeners.
type Handlers struct {
	docs map[exchange.Listeners]func() served
}

// Describe makes the documents those of a table, which holds the handlers' own
// lines too.
func (g *Handlers) Describe(table []exchange.Endpoint) {
	g.docs = map[exchange.Listeners]func() served{
		exchange.OnPublic: newServed(table, exchange.OnPublic), exchange.OnAdmin: newServed(table, exchange.OnEvery),
	}
}

// Endpoints returns the route of the document; each listener has its own.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{{
		ID: "openapi", Name: "openapi", Methods: exchange.Reading, Path: "/openapi.json", On: exchange.OnEvery,
		AnyQuery: true,
		Doc:      "This document: what the listener serves. The admin listener's describes the public listener too.",
		Headers:  []string{"If-Match", "If-None-Match"},
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaOpenAPI},
				Headers: []string{"ETag", "Cache-Control"}, Doc: "the document",
			},
			{Code: http.StatusNotModified, Headers: []string{"ETag", "Cache-Control"}, Doc: "the client has it"},
		},
		Fails: []status.Outcome{status.Precondition},
		Serve: g.serve,
	}}
}
