package gateway

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
