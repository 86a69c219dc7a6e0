package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The parts of the document that do not come from the route table.
const (
	openapiVersion = "3.1.1"
	apiVersion     = "1.0.0" // the version of the API, not of the program

	aboutAPI = "The HTTP side of an allium node. The public listener serves content to everyone, under the tags " +
		"\"content\" and \"upload\". The admin listener, on loopback, and the Unix socket of the node's own " +
		"user serve the node's pages and its API. Every path answers OPTIONS with 204 and Allow. A path that is not " +
		"in this document is answered with 404, and a method that a path does not have with 405 and Allow, both as " +
		"problems (RFC 9457). An answer that ends early never looks complete: its connection is cut."
)

var (
	publicServer = Server{URL: "http://127.0.0.1:8080", Description: "the public listener, gateway.listen"}
	adminServer  = Server{
		URL:         "http://127.0.0.1:9600",
		Description: "the admin listener, admin.listen; the Unix socket serves the same paths",
	}
)

var apiTags = []Tag{
	{"content", "Objects and directories, for everyone."},
	{"upload", "Uploads of objects, with a capability."},
	{"node", "The node's own pages. Those about its state are served even when every limit is reached."},
	{"admin", "Mutations for operators: JSON in, JSON out, repeatable with an Idempotency-Key."},
	{
		"api",
		"The local API, which the command line uses. An answer in lines (`application/x-ndjson`) ends with `ok` or " +
			"`error`; an answer without such a line was cut.",
	},
}

// tagOf returns the tag of an endpoint.
func tagOf(e *exchange.Endpoint) string {
	switch {
	case strings.HasPrefix(e.Path, "/admin/"):
		return "admin"
	case e.Exempt, e.On == exchange.OnEvery:
		return "node"
	case strings.HasPrefix(e.Path, "/api/v1/"):
		return "api"
	case e.Op != "" || strings.HasPrefix(e.Path, "/u"):
		return "upload"
	}
	return "content"
}

// outcomesOf returns the errors that an endpoint may answer with, each once, ordered by code.
func outcomesOf(e *exchange.Endpoint) []status.Outcome {
	all := slices.Concat([]status.Outcome{status.BadRequest, status.BodyCap, status.Internal}, e.Fails)
	if e.On&exchange.OnAdmin != 0 {
		all = append(all, status.NotAllowed) // the Host, or another site's page
	}
	if !e.Exempt {
		all = append(all, status.Busy, status.RateLimit, status.Draining, status.Canceled, status.Timeout)
	}
	if e.Op != "" {
		all = append(all, status.Unauthenticated, status.Forbidden, status.NotReady, status.NoSpace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// New returns the document of the routes that listeners serve.
func New(table []exchange.Endpoint, on exchange.Listeners) (*Document, error) {
	s, err := newSchemas()
	if err != nil {
		return nil, err
	}
	d := &Document{
		OpenAPI: openapiVersion,
		Info: Info{Title: "allium", Summary: "A peer-to-peer node for content addressed by BLAKE3",
			Description: aboutAPI,
			Version:     apiVersion,
			License:     License{Name: "MIT OR Apache-2.0", Identifier: "MIT OR Apache-2.0"}},
		Servers: []Server{publicServer}, Paths: map[string]map[string]Operation{},
		Components: Components{
			Schemas: s.made, Responses: map[string]Response{}, Parameters: map[string]Parameter{},
			Headers:         map[string]Header{},
			SecuritySchemes: map[string]Schema{},
		},
	}
	if on&exchange.OnAdmin != 0 {
		d.Servers = []Server{adminServer}
	}
	problem, err := s.of(typeOfProblem, false)
	if err != nil {
		return nil, err
	}
	for _, e := range table { // requests first: what they hold is closed
		for _, b := range e.Body {
			if e.On&on != 0 && b.Of != nil {
				if _, err := s.of(b.Of, true); err != nil {
					return nil, err
				}
			}
		}
	}
	used := map[string]bool{}
	for i := range table {
		e := &table[i]
		if e.On&on == 0 {
			continue
		}
		if err := d.add(e, s, on, problem); err != nil {
			return nil, fmt.Errorf("%s: %w", e.ID, err)
		}
		used[tagOf(e)] = true
	}
	d.Tags = slices.DeleteFunc(slices.Clone(apiTags), func(t Tag) bool { return !used[t.Name] })
	return d, nil
}

// add adds the operations of an endpoint.
func (d *Document) add(e *exchange.Endpoint, s *schemas, on exchange.Listeners, problem Schema) error {
	op := Operation{
		Tags: []string{tagOf(e)}, Summary: strings.TrimSuffix(e.Doc, "."), Description: e.More,
		Responses: map[string]Response{},
	}
	if op.Description == "" {
		op.Description = e.Doc
	}
	if on&exchange.OnAdmin != 0 && e.On&exchange.OnAdmin == 0 {
		op.Servers = []Server{publicServer}
	}
	if e.Op != "" {
		d.Components.SecuritySchemes["capability"] = Schema{
			"type": "http", "scheme": "bearer", "bearerFormat": "macaroon",
			"description": "A capability that `allium token mint` makes, base64url, also as `Authorization: " +
				"Macaroon`. Over the Unix socket none is needed: the kernel says who asks.",
		}
		op.Security = []map[string][]string{{"capability": {}}}
		if e.On&exchange.OnAdmin != 0 {
			op.Security = append(op.Security, map[string][]string{}) // the socket
		}
		op.Description += " Needs the operation `" + string(e.Op) + "`."
	}
	d.parameters(&op, e)
	for _, b := range e.Body {
		if op.Body == nil {
			op.Body = &RequestBody{Required: !e.BodyOptional, Content: map[string]Media{}}
		}
		m, err := describe(b, s, true)
		if err != nil {
			return err
		}
		op.Body.Content[b.Media] = m
	}
	for _, a := range e.Answers {
		if err := d.answer(&op, a, s); err != nil {
			return err
		}
	}
	d.problems(&op, e, problem)
	at := d.Paths[e.Path]
	if at == nil {
		at = map[string]Operation{}
		d.Paths[e.Path] = at
	}
	for _, m := range e.Methods {
		each := op
		each.ID = operationID(e, m)
		if m == http.MethodHead {
			each.Responses = bodiless(op.Responses)
		}
		at[strings.ToLower(m)] = each
	}
	return nil
}

// operationID returns the operationId of an endpoint's method.
func operationID(e *exchange.Endpoint, method string) string {
	if method == http.MethodHead && len(e.Methods) > 1 {
		return e.ID + "Head"
	}
	return e.ID
}

// bodiless returns the responses to HEAD: the same without bodies. Problems keep
// theirs in the document, where they are shared.
func bodiless(with map[string]Response) map[string]Response {
	all := map[string]Response{}
	for code, r := range with {
		r.Content = nil
		all[code] = r
	}
	return all
}

func (d *Document) parameters(op *Operation, e *exchange.Endpoint) {
	if _, name, ok := strings.Cut(e.Path, "{"); ok {
		name = strings.TrimSuffix(name, "}")
		p := Parameter{
			Name: name, In: "path", Required: true, Schema: Schema{"type": "string"},
			Description: "What follows, each segment escaped alone; it may hold slashes.",
		}
		switch name {
		case "b3":
			p.Description, p.Schema["examples"] = "An address, b3: and 64 lowercase hexadecimal digits.",
				[]string{b3.Sum([]byte("hello\n")).String()}
		case "lookup_id":
			p.Description, p.Schema["pattern"] = "The ID of a lookup.", "^[0-9a-f]{16}$"
		case "id":
			p.Description, p.Schema["pattern"] = "The id of an upload.", "^[0-9a-f]{32}$"
		}
		op.Parameters = append(op.Parameters, p)
	}
	for _, q := range e.Params {
		p := Parameter{
			Name: q.Name, In: "query", Description: q.Doc, Required: q.Kind == exchange.TextParam,
			Schema: Schema{"type": "string"},
		}
		switch q.Kind {
		case exchange.TextParam:
			p.Schema["minLength"] = 1
		case exchange.BoolParam:
			p.Schema = Schema{"type": "boolean"}
		case exchange.IntegerParam:
			p.Schema = Schema{"type": "integer", "format": "int64"}
		}
		if q.Of != nil {
			p.Schema["enum"] = q.Of
		}
		op.Parameters = append(op.Parameters, p)
	}
	names := append([]string{"X-Corr-ID"}, e.Headers...)
	if !e.Exempt && !slices.Contains(names, "Request-Timeout") {
		names = append(names, "Request-Timeout")
	}
	for _, name := range names {
		if name == "Accept" || name == "Content-Type" {
			continue // OpenAPI says them by media types
		}
		d.Components.Parameters[name] = Parameter{
			Name: name, In: "header", Description: HeaderDocs[name].Doc, Schema: HeaderDocs[name].schema(),
		}
		op.Parameters = append(op.Parameters, Parameter{Ref: "#/components/parameters/" + name})
	}
}

// schema returns the schema of a header's values.
func (h HeaderDoc) schema() Schema {
	s := Schema{"type": "string"}
	if h.Pattern != "" {
		s["pattern"] = h.Pattern
	}
	return s
}

// JSON returns the document of what a table serves on listeners, as JSON.
func JSON(endpoints []exchange.Endpoint, on exchange.Listeners) ([]byte, error) {
	d, err := New(endpoints, on)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err = e.Encode(d)
	return b.Bytes(), err
}

// typeOfProblem is the type of every error in the document, and typeOfLine that of
// the lines that any answer in lines may have.
var (
	typeOfProblem = reflect.TypeFor[api.Problem]()
	typeOfLine    = []struct {
		name string
		Of   reflect.Type
	}{
		{"progress", reflect.TypeFor[api.Progress]()}, {"roots", reflect.TypeFor[[]b3.Root]()}, {
			"trace", reflect.TypeFor[api.Trace](),
		}, {"error", reflect.TypeFor[status.Report]()},
	}
)
