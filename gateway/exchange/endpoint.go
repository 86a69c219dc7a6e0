package exchange

import (
	"net/http"
	"reflect"
	"slices"

	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Endpoint is a line of the table of routes: one path, what it answers to some
// methods, and what the documents say of it. Requests are matched by the table,
// openapi.json and docs/reference/http.md are made of it, and the contract tests
// hold every answer against it.
//
// A path with several methods that differ has a line for each; name, free and
// on are then the same in all of them.
type Endpoint struct {
	ID      string   // operationId; with HEAD beside another method, HEAD's is id+"Head"
	Name    string   // of the path in metrics and refusals
	Methods []string // that serve answers
	// Path is what the request's path has to be. A "{…}" at its end stands for the
	// rest of the escaped path, slashes and nothing included, which serve gets.
	Path string
	On   Listeners

	Page         bool                          // people look at it: its errors are pages where the client wants that
	Free         bool                          // waits for nothing: no gate, no rate, no drain
	Op           capability.Op                 // what the client must be allowed to do; empty: nothing
	Acts         acting                        // where the object is that it does that to
	Object       func(r *http.Request) b3.Root // finds that object where it is in neither path nor key; nil elsewhere
	Params       []Param                       // of the query
	Upload       bool                          // takes one of the places for uploads instead of one in flight
	Loose        bool                          // other parameters are ignored, and these not checked: pages are asked for by browsers and caches
	Headers      []string                      // of the request, that change the answer: keys of headerDocs
	BodyOptional bool                          // it may be left out
	Body         []Payload                     // what may be sent, one for each media type; none: a body is refused
	Records      bool                          // writes to the audit log itself, once it knows what it is about
	// Looks reports that a request only says what it would change, or what is
	// damaged: that needs no record, so a disk that takes no writes does not refuse
	// it; nil: none does.
	Looks func(q Params) bool

	Answers []Reply          // to success
	Tells   []string         // headers that errors have too, where the handler knows them
	Fails   []status.Outcome // beside those that every endpoint may have, see openapi.go
	Doc     string           // one sentence
	More    string           // what else a reader should know; may be empty
	Serve   Handler
}

// Has reports whether an endpoint takes a parameter of that name.
func (e *Endpoint) Has(p Param) bool {
	return slices.ContainsFunc(e.Params, func(known Param) bool { return known.Name == p.Name })
}

// acting is where the object is that a request acts on.
type acting uint8

// The objects that a request may act on.
const (
	onNamed    acting = iota // in the path, or the parameter that is a key
	ActsOnTree               // the same, and what that leads to; where there is a parameter "recursive", if that is true
	ActsLater                // the handler knows it, and asks about it
)

// Listeners is where an endpoint is served.
type Listeners uint8

// The listeners of an endpoint.
const (
	OnPublic Listeners = 1 << iota
	OnAdmin            // the admin listener and the socket
	OnEvery  = OnPublic | OnAdmin
)

// The methods of most endpoints.
var (
	Reading = []string{http.MethodGet, http.MethodHead} // of everything that is only looked at
	Getting = []string{http.MethodGet}
	Posting = []string{http.MethodPost}
)

// Handler answers a request. An error before the first byte becomes a problem,
// a later one cuts the connection.
type Handler func(w *Response, r *http.Request, in Input) error

// Input is what the router took out of a request.
type Input struct {
	Rest  string    // what stands for the path's "{…}", escaped
	Query Params    // checked; nil where the endpoint is loose
	On    Listeners // whose request it is
}

// Payload is a body of one media type.
type Payload struct {
	Media string
	Of    reflect.Type // of JSON, or of an item of NDJSON; nil: bytes
	Last  reflect.Type // of the result in the last line of NDJSON; nil: {}
}

// Reply is a success.
type Reply struct {
	Code    int
	Payload          // without media: no body
	Headers []string // keys of headerDocs
	Doc     string
}

// The media types that several endpoints use.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json"
	MediaOpenAPI = "application/vnd.oai.openapi+json;version=3.1"
	MediaLines   = "application/x-ndjson"
	MediaText    = "text/plain; charset=utf-8"
	MediaHTML    = "text/html; charset=utf-8"
	MediaBytes   = "application/octet-stream"
	MediaTar     = "application/x-tar"
	MediaAny     = "*/*" // whatever the content is
)

// JSONBody is one JSON value.
func JSONBody[T any]() Payload { return Payload{Media: MediaJSON, Of: reflect.TypeFor[T]()} }

// LinesBody is NDJSON of items, with a result in its last line.
func LinesBody[Item, Last any]() Payload {
	return Payload{Media: MediaLines, Of: reflect.TypeFor[Item](), Last: reflect.TypeFor[Last]()}
}

// JSONReplies is the answers of an endpoint that says one JSON value.
func JSONReplies[T any](doc string) []Reply {
	return []Reply{{Code: http.StatusOK, Payload: JSONBody[T](), Headers: []string{"Cache-Control"}, Doc: doc}}
}
