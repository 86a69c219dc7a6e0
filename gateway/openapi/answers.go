package openapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// headers returns references to the headers, and adds the headers to the components.
func (d *Document) headers(names ...string) map[string]Header {
	refs := map[string]Header{}
	for _, name := range slices.Concat(names, EveryAnswer, tlsAnswer, corsAnswer) {
		d.Components.Headers[name] = Header{Description: HeaderDocs[name].Doc, Schema: HeaderDocs[name].schema()}
		refs[name] = Header{Ref: "#/components/headers/" + name}
	}
	return refs
}

// answer adds an answer to a successful request. Answers with the same code become one answer with
// several media types.
func (d *Document) answer(op *Operation, a exchange.Reply, s *schemas) error {
	code := strconv.Itoa(a.Code)
	r, again := op.Responses[code]
	if !again {
		r = Response{Headers: map[string]Header{}}
	}
	switch {
	case !again:
		r.Description = a.Doc
	case !strings.Contains(r.Description, a.Doc):
		r.Description += "; or: " + a.Doc
	}
	for name, h := range d.headers(a.Headers...) {
		r.Headers[name] = h
	}
	if a.Media != "" {
		m, err := describe(a.Payload, s, false)
		if err != nil {
			return err
		}
		if r.Content == nil {
			r.Content = map[string]Media{}
		}
		r.Content[a.Media] = m
	}
	op.Responses[code] = r
	return nil
}

// formSchema is the schema of a form with files.
var formSchema = Schema{
	"type": "object", "required": []string{"files"},
	"properties": Schema{
		"token": Schema{"type": "string", "description": "A capability, if the header Authorization has none."},
		"files": Schema{
			"type": "array", "items": Schema{"type": "string", "format": "binary"},
			"description": "The files. The name of each is its path. The field may have any name.",
		},
	},
}

// describe returns the media type object of a body.
func describe(p exchange.Payload, s *schemas, closed bool) (Media, error) {
	if p.Of == nil {
		if p.Media == exchange.MediaForm {
			return Media{Schema: formSchema}, nil
		}
		if strings.HasPrefix(p.Media, "text/") {
			return Media{Schema: Schema{"type": "string"}}, nil
		}
		return Media{Schema: Schema{"type": "string", "format": "binary"}}, nil
	}
	item, err := s.of(p.Of, closed)
	if p.Media == exchange.MediaEvents {
		return Media{Schema: Schema{
			"type":             "string",
			"description":      "Server-sent events. The schema is that of the data of each, but the last.",
			"contentMediaType": exchange.MediaJSON, "contentSchema": item,
		}}, err
	}
	if p.Array {
		return Media{Schema: Schema{"type": "array", "items": item}}, err
	}
	if err != nil || p.Media != exchange.MediaLines {
		return Media{Schema: item}, err
	}
	line := func(name string, of Schema) Schema {
		return Schema{
			"type": "object", "properties": Schema{name: of}, "required": []string{name}, "additionalProperties": false,
		}
	}
	forms := []Schema{}
	if p.Of.NumField() > 0 {
		forms = append(forms, line("item", item))
	}
	var last Schema
	if last, err = s.of(p.Last, closed); err != nil {
		return Media{}, err
	}
	for _, f := range typeOfLine {
		of, err := s.of(f.Of, closed)
		if err != nil {
			return Media{}, err
		}
		forms = append(forms, line(f.name, of))
	}
	return Media{Schema: Schema{
		"description": "Lines; this is the schema of each. The last one has ok or error.",
		"oneOf":       append(forms, line("ok", last)),
	}}, nil
}

// problems adds the errors. Endpoints with the same outcomes under a code share one component.
func (d *Document) problems(op *Operation, e *exchange.Endpoint, problem Schema) {
	byCode := map[int][]string{}
	for _, o := range outcomesOf(e) {
		byCode[o.Code()] = append(byCode[o.Code()], o.String())
	}
	for code, reasons := range byCode {
		name := strings.Join(append([]string{strconv.Itoa(code)}, reasons...), "-")
		headers := append([]string{"X-Reason", "Cache-Control"}, e.ErrorHeaders...)
		if e.ErrorPages {
			name += ".page"
			headers = append(headers, "Vary", "Content-Security-Policy")
		}
		for _, h := range e.ErrorHeaders {
			name += "." + strings.ReplaceAll(h, "-", "")
		}
		for _, reason := range reasons {
			if o, _ := status.Parse(reason); exchange.RetryAfter(o, status.Report{}) > 0 ||
				code == http.StatusTooManyRequests {
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
		r := Response{
			Description: http.StatusText(code) + ": " + strings.Join(reasons, ", "), Headers: d.headers(headers...),
			Content: map[string]Media{exchange.MediaProblem: {Schema: problem}},
		}
		if e.ErrorPages {
			r.Content[exchange.MediaHTML] = Media{Schema: Schema{"type": "string"}}
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
		op.Responses[text] = Response{Ref: "#/components/responses/" + name}
	}
}
