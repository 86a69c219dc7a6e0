package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// document is an OpenAPI 3.1 document made of the table of routes. Its JSON is
// the same bytes for the same program.
type document struct {
	OpenAPI    string                             `json:"openapi"`
	Info       docInfo                            `json:"info"`
	Servers    []docServer                        `json:"servers"`
	Tags       []docTag                           `json:"tags"`
	Paths      map[string]map[string]docOperation `json:"paths"`
	Components docParts                           `json:"components"`
}

type docInfo struct {
	Title       string     `json:"title"`
	Summary     string     `json:"summary"`
	Description string     `json:"description"`
	Version     string     `json:"version"`
	License     docLicense `json:"license"`
}

type docLicense struct {
	Name       string `json:"name"`
	Identifier string `json:"identifier"`
}

type docServer struct {
	URL         string `json:"url"`
	Description string `json:"description"`
}

type docTag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type docParts struct {
	Schemas         map[string]schema       `json:"schemas"`
	Responses       map[string]docResponse  `json:"responses"`
	Parameters      map[string]docParameter `json:"parameters"`
	Headers         map[string]docHeader    `json:"headers"`
	SecuritySchemes map[string]schema       `json:"securitySchemes"`
}

type docOperation struct {
	ID          string                 `json:"operationId"`
	Tags        []string               `json:"tags"`
	Summary     string                 `json:"summary"`
	Description string                 `json:"description,omitempty"`
	Servers     []docServer            `json:"servers,omitempty"`
	Parameters  []docParameter         `json:"parameters,omitempty"`
	Body        *docBody               `json:"requestBody,omitempty"`
	Responses   map[string]docResponse `json:"responses"`
	Security    []map[string][]string  `json:"security,omitempty"`
}

type docParameter struct {
	Ref         string `json:"$ref,omitempty"`
	Name        string `json:"name,omitempty"`
	In          string `json:"in,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
	Schema      schema `json:"schema,omitempty"`
}

type docBody struct {
	Required bool                `json:"required"`
	Content  map[string]docMedia `json:"content"`
}

type docMedia struct {
	Schema   schema         `json:"schema,omitempty"`
	Examples map[string]any `json:"examples,omitempty"`
}

type docResponse struct {
	Ref         string               `json:"$ref,omitempty"`
	Description string               `json:"description,omitempty"`
	Headers     map[string]docHeader `json:"headers,omitempty"`
	Content     map[string]docMedia  `json:"content,omitempty"`
}

type docHeader struct {
	Ref         string `json:"$ref,omitempty"`
	Description string `json:"description,omitempty"`
	Schema      schema `json:"schema,omitempty"`
}

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

// headers are references to headers, which become components.
func (d *document) headers(names ...string) map[string]docHeader {
	refs := map[string]docHeader{}
	for _, name := range slices.Concat(names, everyAnswer, tlsAnswer, corsAnswer) {
		d.Components.Headers[name] = docHeader{Description: headerDocs[name].doc, Schema: headerDocs[name].schema()}
		refs[name] = docHeader{Ref: "#/components/headers/" + name}
	}
	return refs
}

// answer adds a success; several of one code are one answer in several media
// types.
func (d *document) answer(op *docOperation, a reply, s *schemas) error {
	code := strconv.Itoa(a.code)
	r, again := op.Responses[code]
	if !again {
		r = docResponse{Headers: map[string]docHeader{}}
	}
	switch {
	case !again:
		r.Description = a.doc
	case !strings.Contains(r.Description, a.doc):
		r.Description += "; or: " + a.doc
	}
	for name, h := range d.headers(a.headers...) {
		r.Headers[name] = h
	}
	if a.media != "" {
		m, err := a.describe(s, false)
		if err != nil {
			return err
		}
		if r.Content == nil {
			r.Content = map[string]docMedia{}
		}
		r.Content[a.media] = m
	}
	op.Responses[code] = r
	return nil
}

// describe is the schema of a body.
func (p payload) describe(s *schemas, closed bool) (docMedia, error) {
	if p.of == nil {
		if strings.HasPrefix(p.media, "text/") {
			return docMedia{Schema: schema{"type": "string"}}, nil
		}
		return docMedia{}, nil
	}
	item, err := s.of(p.of, closed)
	if err != nil || p.media != mediaLines {
		return docMedia{Schema: item}, err
	}
	line := func(name string, of schema) schema {
		return schema{"type": "object", "properties": schema{name: of}, "required": []string{name}, "additionalProperties": false}
	}
	forms := []schema{}
	if p.of.NumField() > 0 {
		forms = append(forms, line("item", item))
	}
	var last schema
	if last, err = s.of(p.last, closed); err != nil {
		return docMedia{}, err
	}
	for _, f := range typeOfLine {
		of, err := s.of(f.of, closed)
		if err != nil {
			return docMedia{}, err
		}
		forms = append(forms, line(f.name, of))
	}
	return docMedia{Schema: schema{"description": "Lines; this is the schema of each. The last one has ok or error.", "oneOf": append(forms, line("ok", last))}}, nil
}

// problems adds the errors, each code once for all endpoints that have the same
// outcomes under it.
func (d *document) problems(op *docOperation, e *endpoint, problem schema) {
	byCode := map[int][]string{}
	for _, o := range e.outcomes() {
		byCode[o.Code()] = append(byCode[o.Code()], o.String())
	}
	for code, reasons := range byCode {
		name := strings.Join(append([]string{strconv.Itoa(code)}, reasons...), "-")
		headers := append([]string{"X-Reason", "Cache-Control"}, e.tells...)
		for _, h := range e.tells {
			name += "." + strings.ReplaceAll(h, "-", "")
		}
		for _, reason := range reasons {
			if o, _ := status.Parse(reason); retryAfter(o, status.Report{}) > 0 || code == http.StatusTooManyRequests {
				headers = append(headers, "Retry-After")
			}
		}
		switch code {
		case http.StatusConflict: // the first request with an Idempotency-Key still runs
			headers = append(headers, "Retry-After")
		case http.StatusUnauthorized:
			headers = append(headers, "WWW-Authenticate")
		case http.StatusRequestedRangeNotSatisfiable:
			headers = append(headers, "Content-Range", "Accept-Ranges")
		}
		r := docResponse{
			Description: http.StatusText(code) + ": " + strings.Join(reasons, ", "), Headers: d.headers(headers...),
			Content: map[string]docMedia{mediaProblem: {Schema: problem}},
		}
		if r.Description[0] == ':' {
			r.Description = strings.Join(reasons, ", ")
		}
		text := strconv.Itoa(code)
		if same, ok := op.Responses[text]; ok { // a success of that code, as readyz has one
			for media, m := range r.Content {
				same.Content[media] = m
			}
			for name, h := range r.Headers {
				same.Headers[name] = h
			}
			same.Description += "; or a problem: " + strings.Join(reasons, ", ")
			op.Responses[text] = same
			continue
		}
		d.Components.Responses[name] = r
		op.Responses[text] = docResponse{Ref: "#/components/responses/" + name}
	}
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
