package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"allium/protocols/status"
)

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
