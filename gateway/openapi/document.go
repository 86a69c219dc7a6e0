package openapi

// Document is an OpenAPI 3.1 document made of the table of routes. Its JSON is
// the same bytes for the same program.
type Document struct {
	OpenAPI    string                          `json:"openapi"`
	Info       Info                            `json:"info"`
	Servers    []Server                        `json:"servers"`
	Tags       []Tag                           `json:"tags"`
	Paths      map[string]map[string]Operation `json:"paths"`
	Components Components                      `json:"components"`
}

// Info says what a document is about.
type Info struct {
	Title       string  `json:"title"`
	Summary     string  `json:"summary"`
	Description string  `json:"description"`
	Version     string  `json:"version"`
	License     License `json:"license"`
}

// License names a licence.
type License struct {
	Name       string `json:"name"`
	Identifier string `json:"identifier"`
}

// Server is the base URL of the described routes.
type Server struct {
	URL         string `json:"url"`
	Description string `json:"description"`
}

// Tag groups operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Components are the parts that operations share.
type Components struct {
	Schemas         map[string]Schema    `json:"schemas"`
	Responses       map[string]Response  `json:"responses"`
	Parameters      map[string]Parameter `json:"parameters"`
	Headers         map[string]Header    `json:"headers"`
	SecuritySchemes map[string]Schema    `json:"securitySchemes"`
}

// Operation describes one method of a path.
type Operation struct {
	ID          string                `json:"operationId"`
	Tags        []string              `json:"tags"`
	Summary     string                `json:"summary"`
	Description string                `json:"description,omitempty"`
	Servers     []Server              `json:"servers,omitempty"`
	Parameters  []Parameter           `json:"parameters,omitempty"`
	Body        *RequestBody          `json:"requestBody,omitempty"`
	Responses   map[string]Response   `json:"responses"`
	Security    []map[string][]string `json:"security,omitempty"`
}

// Parameter is one of a path, a query or a header.
type Parameter struct {
	Ref         string `json:"$ref,omitempty"`
	Name        string `json:"name,omitempty"`
	In          string `json:"in,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
	Schema      Schema `json:"schema,omitempty"`
}

// RequestBody describes the body that a request may have.
type RequestBody struct {
	Required bool             `json:"required"`
	Content  map[string]Media `json:"content"`
}

// Media is a body of one media type.
type Media struct {
	Schema   Schema         `json:"schema,omitempty"`
	Examples map[string]any `json:"examples,omitempty"`
}

// Response is an answer of one status.
type Response struct {
	Ref         string            `json:"$ref,omitempty"`
	Description string            `json:"description,omitempty"`
	Headers     map[string]Header `json:"headers,omitempty"`
	Content     map[string]Media  `json:"content,omitempty"`
}

// Header is a header of an answer.
type Header struct {
	Ref         string `json:"$ref,omitempty"`
	Description string `json:"description,omitempty"`
	Schema      Schema `json:"schema,omitempty"`
}
