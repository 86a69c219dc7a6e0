package gateway

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"allium/protocols/status"
)

// param is a parameter that an endpoint knows.
type param struct {
	name string
	kind paramKind
	doc  string
	of   []string // the values it may have; nil: any of its kind
}

type paramKind uint8

const (
	anyText  paramKind = iota
	someText           // not empty
	boolean            // true or false
	integer            // 64 bits, signed
)

// params are the parameters of a request, checked.
type params url.Values

// parseParams reads a query. A parameter that the endpoint does not know, or that
// comes twice, is refused: a misspelt one must not be ignored.
func parseParams(query string, known []param) (params, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "the query is malformed: %w", err)
	}
	for name, values := range q {
		if !slices.ContainsFunc(known, func(p param) bool { return p.name == name }) {
			return nil, status.Errorf(status.BadRequest, "parameter %q is not known here; %s", clip(name), listParams(known))
		}
		if len(values) > 1 {
			return nil, status.Errorf(status.BadRequest, "parameter %s comes %d times", name, len(values))
		}
	}
	for _, p := range known {
		v := q.Get(p.name)
		if v != "" && p.of != nil && !slices.Contains(p.of, v) {
			return nil, status.Errorf(status.BadRequest, "parameter %s is %q, want one of %s", p.name, clip(v), strings.Join(p.of, ", "))
		}
		switch p.kind {
		case someText:
			if v == "" {
				return nil, status.Errorf(status.BadRequest, "parameter %s is missing", p.name)
			}
		case boolean:
			if v != "" && v != "true" && v != "false" {
				return nil, status.Errorf(status.BadRequest, "parameter %s is %q, want true or false", p.name, clip(v))
			}
		case integer:
			if _, err := strconv.ParseInt(v, 10, 64); v != "" && err != nil {
				return nil, status.Errorf(status.BadRequest, "parameter %s is %q, want a number", p.name, clip(v))
			}
		}
	}
	return params(q), nil
}

func listParams(known []param) string {
	if len(known) == 0 {
		return "there are none"
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	return "known are " + strings.Join(names, ", ")
}

func (q params) text(name string) string { return url.Values(q).Get(name) }

func (q params) flag(name string) bool { return q.text(name) == "true" }

// integer is the parameter's value, or missing where there is none.
func (q params) integer(name string, missing int64) int64 {
	n, err := strconv.ParseInt(q.text(name), 10, 64)
	if err != nil {
		return missing // parseParams refused everything else
	}
	return n
}
