package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The parts of the document that no line of the table says.
const (
	openapiVersion = "3.1.1"
	apiVersion     = "1.0.0" // of what is described, not of the program

	aboutAPI = "The HTTP side of an allium node. The public listener shows content to anyone; the admin listener, on loopback, " +
		"and the Unix socket of the node's own user serve the node's pages and its API, and the public listener's document besides " +
		"describes what is here under \"content\". Every path answers OPTIONS with 204 and Allow. What is not in this document is " +
		"answered with 404, a method that a path does not have with 405 and Allow, both as problems (RFC 9457). An answer that " +
		"ends before it is whole never looks whole: its connection is cut."
)

var (
	publicServer = docServer{URL: "http://127.0.0.1:8080", Description: "the public listener, gateway.listen"}
	adminServer  = docServer{URL: "http://127.0.0.1:9600", Description: "the admin listener, admin.listen; the Unix socket serves the same"}
)

var apiTags = []docTag{
	{"content", "Objects and directories, for anyone."},
	{"upload", "Objects from outside."},
	{"node", "The node's own pages; those that say how it is wait for nothing."},
	{"admin", "What an operator changes: JSON in, JSON out, repeatable with an Idempotency-Key."},
	{"api", "The local API, which the command line speaks. An answer in lines (`application/x-ndjson`) ends with `ok` or `error`; one that does not was cut."},
}

// tagOf is the tag of an endpoint.
func (e *endpoint) tag() string {
	switch {
	case strings.HasPrefix(e.path, "/admin/"):
		return "admin"
	case e.free, e.on == onEvery:
		return "node"
	case strings.HasPrefix(e.path, apiPath):
		return "api"
	case e.op != "" || strings.HasPrefix(e.path, "/u"):
		return "upload"
	}
	return "content"
}

// outcomes are the errors that an endpoint may answer with, each once, by code.
func (e *endpoint) outcomes() []status.Outcome {
	all := slices.Concat([]status.Outcome{status.BadRequest, status.BodyCap, status.Internal}, e.fails)
	if e.on&onAdmin != 0 {
		all = append(all, status.NotAllowed) // the Host, or another site's page
	}
	if !e.free {
		all = append(all, status.Busy, status.RateLimit, status.Draining, status.Canceled, status.Timeout)
	}
	if e.op != "" {
		all = append(all, status.Unauthenticated, status.Forbidden, status.NotReady, status.NoSpace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// newDocument describes what listeners serve.
func newDocument(table []endpoint, on listeners) (*document, error) {
	s, err := newSchemas()
	if err != nil {
		return nil, err
	}
	d := &document{
		OpenAPI: openapiVersion,
		Info: docInfo{Title: "allium", Summary: "A peer-to-peer node for content addressed by BLAKE3", Description: aboutAPI, Version: apiVersion,
			License: docLicense{Name: "MIT OR Apache-2.0", Identifier: "MIT OR Apache-2.0"}},
		Servers: []docServer{publicServer}, Paths: map[string]map[string]docOperation{},
		Components: docParts{
			Schemas: s.made, Responses: map[string]docResponse{}, Parameters: map[string]docParameter{}, Headers: map[string]docHeader{},
			SecuritySchemes: map[string]schema{},
		},
	}
	if on&onAdmin != 0 {
		d.Servers = []docServer{adminServer}
	}
	problem, err := s.of(typeOfProblem, false)
	if err != nil {
		return nil, err
	}
	for _, e := range table { // requests first: what they hold is closed
		for _, b := range e.body {
			if e.on&on != 0 && b.of != nil {
				if _, err := s.of(b.of, true); err != nil {
					return nil, err
				}
			}
		}
	}
	used := map[string]bool{}
	for i := range table {
		e := &table[i]
		if e.on&on == 0 {
			continue
		}
		if err := d.add(e, s, on, problem); err != nil {
			return nil, fmt.Errorf("%s: %w", e.id, err)
		}
		used[e.tag()] = true
	}
	d.Tags = slices.DeleteFunc(slices.Clone(apiTags), func(t docTag) bool { return !used[t.Name] })
	return d, nil
}

// add describes an endpoint.
func (d *document) add(e *endpoint, s *schemas, on listeners, problem schema) error {
	op := docOperation{Tags: []string{e.tag()}, Summary: strings.TrimSuffix(e.doc, "."), Description: e.more, Responses: map[string]docResponse{}}
	if op.Description == "" {
		op.Description = e.doc
	}
	if on&onAdmin != 0 && e.on&onAdmin == 0 {
		op.Servers = []docServer{publicServer}
	}
	if e.op != "" {
		d.Components.SecuritySchemes["capability"] = schema{
			"type": "http", "scheme": "bearer", "bearerFormat": "macaroon",
			"description": "A capability that `allium token mint` makes, base64url, also as `Authorization: Macaroon`. Over the Unix socket none is needed: the kernel says who asks.",
		}
		op.Security = []map[string][]string{{"capability": {}}}
		if e.on&onAdmin != 0 {
			op.Security = append(op.Security, map[string][]string{}) // the socket
		}
		op.Description += " Needs the operation `" + string(e.op) + "`."
	}
	d.parameters(&op, e)
	for _, b := range e.body {
		if op.Body == nil {
			op.Body = &docBody{Required: !e.bodyOptional, Content: map[string]docMedia{}}
		}
		m, err := b.describe(s, true)
		if err != nil {
			return err
		}
		op.Body.Content[b.media] = m
	}
	for _, a := range e.answers {
		if err := d.answer(&op, a, s); err != nil {
			return err
		}
	}
	d.problems(&op, e, problem)
	at := d.Paths[e.path]
	if at == nil {
		at = map[string]docOperation{}
		d.Paths[e.path] = at
	}
	for _, m := range e.methods {
		each := op
		each.ID = e.operationID(m)
		if m == http.MethodHead {
			each.Responses = bodiless(op.Responses)
		}
		at[strings.ToLower(m)] = each
	}
	return nil
}

// operationID is the operationId of one of an endpoint's methods.
func (e *endpoint) operationID(method string) string {
	if method == http.MethodHead && len(e.methods) > 1 {
		return e.id + "Head"
	}
	return e.id
}

// bodiless is what HEAD answers: the same without bodies. Problems keep theirs
// in the document, where they are shared.
func bodiless(with map[string]docResponse) map[string]docResponse {
	all := map[string]docResponse{}
	for code, r := range with {
		r.Content = nil
		all[code] = r
	}
	return all
}

func (d *document) parameters(op *docOperation, e *endpoint) {
	if _, name, ok := strings.Cut(e.path, "{"); ok {
		name = strings.TrimSuffix(name, "}")
		p := docParameter{Name: name, In: "path", Required: true, Schema: schema{"type": "string"}, Description: "What follows, each segment escaped alone; it may hold slashes."}
		switch name {
		case "b3":
			p.Description, p.Schema["examples"] = "An address, b3: and 64 lowercase hexadecimal digits.", []string{b3.Sum([]byte("hello\n")).String()}
		case "id":
			p.Description, p.Schema["pattern"] = "The id of an upload.", "^[0-9a-f]{32}$"
		}
		op.Parameters = append(op.Parameters, p)
	}
	for _, q := range e.params {
		p := docParameter{Name: q.name, In: "query", Description: q.doc, Required: q.kind == someText, Schema: schema{"type": "string"}}
		switch q.kind {
		case someText:
			p.Schema["minLength"] = 1
		case boolean:
			p.Schema = schema{"type": "boolean"}
		case integer:
			p.Schema = schema{"type": "integer", "format": "int64"}
		}
		if q.of != nil {
			p.Schema["enum"] = q.of
		}
		op.Parameters = append(op.Parameters, p)
	}
	names := append([]string{"X-Corr-ID"}, e.headers...)
	if !e.free && !slices.Contains(names, "Request-Timeout") {
		names = append(names, "Request-Timeout")
	}
	for _, name := range names {
		if name == "Accept" || name == "Content-Type" {
			continue // OpenAPI says them by media types
		}
		d.Components.Parameters[name] = docParameter{Name: name, In: "header", Description: headerDocs[name].doc, Schema: headerDocs[name].schema()}
		op.Parameters = append(op.Parameters, docParameter{Ref: "#/components/parameters/" + name})
	}
}

// schema is of a header's values.
func (h headerDoc) schema() schema {
	s := schema{"type": "string"}
	if h.pattern != "" {
		s["pattern"] = h.pattern
	}
	return s
}

// OpenAPI is the document of every route, as docs/reference/openapi.json has it.
func OpenAPI() ([]byte, error) { return openapiOf(onEvery) }

func openapiOf(on listeners) ([]byte, error) {
	d, err := newDocument(endpoints, on)
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

// typeOfProblem and typeOfLine are what the document says of every error, and of
// the lines that any answer in lines may have.
var (
	typeOfProblem = reflect.TypeFor[client.Problem]()
	typeOfLine    = []struct {
		name string
		of   reflect.Type
	}{
		{"progress", reflect.TypeFor[client.Progress]()}, {"trace", reflect.TypeFor[client.Trace]()}, {"error", reflect.TypeFor[status.Report]()},
	}
)
