package gateway

import (
	"net/http"
	"reflect"
	"slices"

	"allium/protocols/capability"
	"allium/protocols/status"
)

// endpoint is a line of the table of routes: one path, what it answers to some
// methods, and what the documents say of it. Requests are matched by the table,
// openapi.json and docs/reference/http.md are made of it, and the contract tests
// hold every answer against it.
//
// A path with several methods that differ has a line for each; name, free and
// on are then the same in all of them.
type endpoint struct {
	id      string   // operationId; with HEAD beside another method, HEAD's is id+"Head"
	name    string   // of the path in metrics and refusals
	methods []string // that serve answers
	// path is what the request's path has to be. A "{…}" at its end stands for the
	// rest of the escaped path, slashes and nothing included, which serve gets.
	path string
	on   listeners

	free         bool          // waits for nothing: no gate, no rate, no drain
	op           capability.Op // what the client must be allowed to do; empty: nothing
	acts         acting        // where the object is that it does that to
	params       []param       // of the query
	upload       bool          // takes one of the places for uploads instead of one in flight
	loose        bool          // other parameters are ignored, and these not checked: pages are asked for by browsers and caches
	headers      []string      // of the request, that change the answer: keys of headerDocs
	bodyOptional bool          // it may be left out
	body         []payload     // what may be sent, one for each media type; none: a body is refused
	records      bool          // writes to the audit log itself, once it knows what it is about
	own          bool          // looks after what is here, whatever that is: what is denied too

	answers []reply          // to success
	tells   []string         // headers that errors have too, where the handler knows them
	fails   []status.Outcome // beside those that every endpoint may have, see openapi.go
	doc     string           // one sentence
	more    string           // what else a reader should know; may be empty
	serve   handler
}

// has reports whether an endpoint takes a parameter of that name.
func (e *endpoint) has(p param) bool {
	return slices.ContainsFunc(e.params, func(known param) bool { return known.name == p.name })
}

// listeners is where an endpoint is served.
type listeners uint8

const (
	onPublic listeners = 1 << iota
	onAdmin            // the admin listener and the socket
	onEvery  = onPublic | onAdmin
)

// The methods of most endpoints.
var (
	reading = []string{http.MethodGet, http.MethodHead} // of everything that is only looked at
	getting = []string{http.MethodGet}
	posting = []string{http.MethodPost}
)

// handler answers a request. An error before the first byte becomes a problem,
// a later one cuts the connection.
type handler func(g *Gateway, w *response, r *http.Request, in input) error

// input is what the router took out of a request.
type input struct {
	rest string    // what stands for the path's "{…}", escaped
	q    params    // checked; nil where the endpoint is loose
	on   listeners // whose request it is
}

// payload is a body of one media type.
type payload struct {
	media string
	of    reflect.Type // of JSON, or of an item of NDJSON; nil: bytes
	last  reflect.Type // of the result in the last line of NDJSON; nil: {}
}

// reply is a success.
type reply struct {
	code    int
	payload          // without media: no body
	headers []string // keys of headerDocs
	doc     string
}

// The media types that several endpoints use.
const (
	mediaJSON    = "application/json"
	mediaProblem = "application/problem+json"
	mediaOpenAPI = "application/vnd.oai.openapi+json;version=3.1"
	mediaLines   = "application/x-ndjson"
	mediaText    = "text/plain; charset=utf-8"
	mediaHTML    = "text/html; charset=utf-8"
	mediaBytes   = "application/octet-stream"
	mediaTar     = "application/x-tar"
	mediaAny     = "*/*" // whatever the content is
)

// jsonBody is one JSON value.
func jsonBody[T any]() payload { return payload{media: mediaJSON, of: reflect.TypeFor[T]()} }

// linesBody is NDJSON of items, with a result in its last line.
func linesBody[Item, Last any]() payload {
	return payload{media: mediaLines, of: reflect.TypeFor[Item](), last: reflect.TypeFor[Last]()}
}

// value is the answers of an endpoint that says one JSON value.
func value[T any](doc string) []reply {
	return []reply{{code: http.StatusOK, payload: jsonBody[T](), headers: []string{"Cache-Control"}, doc: doc}}
}
