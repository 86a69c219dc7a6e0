package openapi

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"allium/gateway/exchange"
)

// Page is docs/reference/http.md without its heading: the document of every
// route for people.
func Page(table []exchange.Endpoint) ([]byte, error) {
	d, err := New(table, exchange.OnEvery)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, t := range d.Tags {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", t.Name, t.Description)
		for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
			for _, method := range slices.SortedFunc(maps.Keys(d.Paths[path]), byMethod) {
				op := d.Paths[path][method]
				if op.Tags[0] != t.Name || method == "head" && d.Paths[path]["get"].ID != "" {
					continue
				}
				title := strings.ToUpper(method)
				if _, ok := d.Paths[path]["head"]; ok && method == "get" {
					title += "|HEAD"
				}
				fmt.Fprintf(&b, "\n### %s %s\n\n%s.", title, path, op.Summary)
				if text, _ := strings.CutPrefix(op.Description, op.Summary+"."); text != "" {
					b.WriteString(" " + strings.TrimSpace(text))
				}
				b.WriteString("\n\n")
				d.describe(&b, op)
			}
		}
	}
	b.WriteString("\n## Headers\n\n| header | what |\n|---|---|\n")
	heads := map[string]string{}
	for name, p := range d.Components.Parameters {
		heads[name] = p.Description
	}
	for name, h := range d.Components.Headers {
		heads[name] = h.Description
	}
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, heads[name])
	}
	return b.Bytes(), nil
}

// byMethod puts reading before writing.
func byMethod(a, b string) int {
	order := "get head post put patch delete options"
	return cmp.Compare(strings.Index(order, a), strings.Index(order, b))
}

// describe writes an operation's parameters, bodies and answers as a list.
func (d *Document) describe(b *bytes.Buffer, op Operation) {
	var headers []string
	for _, p := range op.Parameters {
		if p.Ref != "" {
			if name := p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]; name != "X-Corr-ID" {
				headers = append(headers, "`"+name+"`")
			}
			continue
		}
		must := ""
		if p.Required && p.In == "query" {
			must = ", required"
		}
		fmt.Fprintf(b, "- %s `%s`%s: %s\n", p.In, p.Name, must, p.Description)
	}
	if len(headers) > 0 {
		fmt.Fprintf(b, "- headers: %s\n", strings.Join(headers, ", "))
	}
	if op.Body != nil {
		for _, m := range slices.Sorted(maps.Keys(op.Body.Content)) {
			fmt.Fprintf(b, "- body: `%s`%s\n", m, op.Body.Content[m].Schema.name())
		}
	}
	var errs []string
	for _, code := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[code]
		if r.Ref != "" {
			name, _, _ := strings.Cut(r.Ref[strings.LastIndexByte(r.Ref, '/')+1:], ".")
			_, reasons, _ := strings.Cut(name, "-")
			errs = append(errs, code+" "+strings.ReplaceAll(reasons, "-", ", "))
			continue
		}
		var bodies []string
		for _, m := range slices.Sorted(maps.Keys(r.Content)) {
			bodies = append(bodies, "`"+m+"`"+r.Content[m].Schema.name())
		}
		fmt.Fprintf(b, "- %s %s", code, r.Description)
		if len(bodies) > 0 {
			fmt.Fprintf(b, ": %s", strings.Join(bodies, ", "))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "- errors: %s\n", strings.Join(errs, "; "))
}

// name returns the name of a schema on a page: its type, in events the type of their data, or
// in lines the types of item and ok.
func (s Schema) name() string {
	if ref, ok := s["$ref"].(string); ok {
		return " " + ref[strings.LastIndexByte(ref, '/')+1:]
	}
	if items, ok := s["items"].(Schema); ok && s["type"] == "array" {
		if name := items.name(); name != "" {
			return " list of" + name
		}
		return fmt.Sprintf(" list of %v", items["type"])
	}
	if data, ok := s["contentSchema"].(Schema); ok {
		return data.name()
	}
	forms, ok := s["oneOf"].([]Schema)
	if !ok {
		return ""
	}
	name := ""
	for _, f := range forms {
		for _, line := range []string{"item", "ok"} {
			if of, ok := f["properties"].(Schema)[line].(Schema); ok && of.name() != "" {
				name += ", " + line + of.name()
			}
		}
	}
	return strings.TrimPrefix(name, ",")
}
