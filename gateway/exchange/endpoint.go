package exchange

import (
	"net/http"
	"reflect"
	"slices"

	"allium/gateway/site"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Endpoint is an entry of the route table: a path, some of its methods, their handler and
// their documentation. The router matches requests against the table. openapi.json and
// docs/reference/http.md are generated from it, and the contract tests check every answer
// against it.
//
// A path whose methods have different handlers has an entry for each. Name, Exempt and On are
// the same in all of them.
type Endpoint struct {
	ID      string   // the operationId; HEAD beside another method has ID+"Head"
	Name    string   // names the path in metrics and errors
	Methods []string // the methods that Serve handles
	// Path is the request's path. A "{…}" at its end matches the rest of the escaped path, which
	// may be empty or contain slashes. Serve gets it as Input.Rest.
	Path string
	On   Listeners // the listeners that serve the path

	ErrorPages    bool                          // people open the path: errors are pages if the client prefers them
	Exempt        bool                          // skips admission: no gate, no rate limit, served while draining
	Op            capability.Op                 // the operation that the client needs a capability for; empty: none
	TokenInForm   bool                          // a form may bring the capability; the handler checks it with Present
	Target        target                        // where the request names the object that Op acts on
	Object        func(r *http.Request) b3.Root // finds that object if it is in neither path nor key; else nil
	Params        []Param                       // of the query
	Upload        bool                          // admitted by the gate of uploads instead of that of requests
	Events        bool                          // a stream of events: it has a gate, and deadlines on the socket too
	AnyQuery      bool                          // the router ignores unknown parameters and checks none, as for pages
	Headers       []string                      // request headers that change the answer: keys of headerDocs
	BodyOptional  bool                          // the body may be left out
	Body          []Payload                     // the accepted bodies, one for each media type; none: a body is refused
	RecordsItself bool                          // the handler writes to the audit log, not the listener
	// ReadOnly reports whether a request of a mutating endpoint changes nothing, such as a dry
	// run. Such a request is not recorded, so it succeeds on a disk that takes no writes. nil: no
	// request is read-only.
	ReadOnly func(q Params) bool

	Answers      []Reply          // the answers to successful requests
	ErrorHeaders []string         // headers that errors have too, if the handler knows their values
	Fails        []status.Outcome // outcomes beside those that every endpoint may have, see openapi/answers.go
	Doc          string           // one sentence
	More         string           // more documentation; may be empty
	Serve        Handler
}

// Has reports whether an endpoint takes a parameter of that name.
func (e *Endpoint) Has(name string) bool {
	return slices.ContainsFunc(e.Params, func(known Param) bool { return known.Name == name })
}

// target tells where a request names the object that its operation acts on.
type target uint8

// The targets of a request.
const (
	targetNamed     target = iota // the object in the path or in the parameter key
	TargetTree                    // that object and its tree; with a parameter recursive, only if that is true
	TargetByHandler               // the handler finds the object and authorizes it
)

// Listeners is a set of listeners.
type Listeners uint8

// The listeners of an endpoint.
const (
	OnPublic Listeners = 1 << iota
	OnAdmin            // the admin listener and the socket
	OnSites            // the public listener, at the hosts of websites
	OnEvery  = OnPublic | OnAdmin
)

// The methods of most endpoints.
var (
	Reading = []string{http.MethodGet, http.MethodHead}
	Getting = []string{http.MethodGet}
	Posting = []string{http.MethodPost}
	// OfSites are those of websites. OPTIONS is there what a page of another origin may do.
	OfSites = []string{http.MethodGet, http.MethodHead, http.MethodOptions}
)

// Handler serves a request. An error before the first byte becomes a problem. A later one cuts
// the connection.
type Handler func(w *Response, r *http.Request, in Input) error

// Input is the parsed URL of a request.
type Input struct {
	Rest  string    // the escaped rest of the path that matched "{…}"
	Query Params    // checked; nil if the endpoint has AnyQuery
	On    Listeners // the listener of the request

	Site *site.Site // the website of the host; nil unless the endpoint is OnSites
	// Gateway is the host of the request, with its port, if roots and names have hosts below it and a client can be
	// redirected there; otherwise it is empty.
	Gateway string

	Uneven bool // the path begins with several slashes; the client should send one
}

// Payload is a body of one media type.
type Payload struct {
	Media string
	Of    reflect.Type // the type of the JSON value, of an NDJSON item or of an event; nil: bytes
	Last  reflect.Type // the type of the result in the last line of NDJSON; nil: {}
	Array bool         // the body is a JSON array of Of
}

// Reply documents an answer to a successful request.
type Reply struct {
	Code    int
	Payload          // without media type: no body
	Headers []string // keys of headerDocs
	Doc     string
}

// The media types that several endpoints use.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json"
	MediaOpenAPI = "application/vnd.oai.openapi+json;version=3.1"
	MediaLines   = "application/x-ndjson"
	MediaEvents  = "text/event-stream" // server-sent events
	MediaText    = "text/plain; charset=utf-8"
	MediaHTML    = "text/html; charset=utf-8"
	MediaBytes   = "application/octet-stream"
	MediaTar     = "application/x-tar"
	MediaZip     = "application/zip"
	MediaForm    = "multipart/form-data"
	MediaAny     = "*/*" // the content's own type
)

// JSONBody returns the payload of one JSON value.
func JSONBody[T any]() Payload { return Payload{Media: MediaJSON, Of: reflect.TypeFor[T]()} }

// EventsBody returns the payload of server-sent events, each with JSON of a T.
func EventsBody[T any]() Payload { return Payload{Media: MediaEvents, Of: reflect.TypeFor[T]()} }

// JSONReplies returns the answers of an endpoint that returns one JSON value.
func JSONReplies[T any](doc string) []Reply {
	return []Reply{{Code: http.StatusOK, Payload: JSONBody[T](), Headers: []string{"Cache-Control"}, Doc: doc}}
}
