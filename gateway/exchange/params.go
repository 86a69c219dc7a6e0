package exchange

import (
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// Param is a query parameter of an endpoint.
type Param struct {
	Name string
	Kind paramKind
	Doc  string
	Of   []string // the permitted values; nil: any of its kind
}

type paramKind uint8

// The kinds of parameters.
const (
	AnyTextParam paramKind = iota // may be missing or empty
	TextParam                     // required and not empty
	BoolParam                     // true or false; missing is false
	IntegerParam                  // 64 bits, signed; may be missing
)

// Params are the checked parameters of a request. They are nil for an empty query.
type Params url.Values

// ParseParams parses a query. It refuses an unknown parameter, so that a misspelt one is never
// ignored, and a parameter that comes twice.
func ParseParams(query string, known []Param) (Params, error) {
	var q url.Values
	var err error
	if query != "" {
		q, err = url.ParseQuery(query)
	}
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "cannot read the query: %w", err)
	}
	for name, values := range q {
		if !slices.ContainsFunc(known, func(p Param) bool { return p.Name == name }) {
			return nil, status.Errorf(status.BadRequest, "parameter %q is unknown. %s", Clip(name), listParams(known))
		}
		if len(values) > 1 {
			return nil, status.Errorf(status.BadRequest, "parameter %s comes %d times. Send it once", name, len(values))
		}
	}
	for _, p := range known {
		v := q.Get(p.Name)
		if v != "" && p.Of != nil && !slices.Contains(p.Of, v) {
			return nil, status.Errorf(status.BadRequest, "parameter %s is %q. Set it to one of %s",
				p.Name, Clip(v), strings.Join(p.Of, ", "))
		}
		switch p.Kind {
		case TextParam:
			if v == "" {
				return nil, status.Errorf(status.BadRequest, "parameter %s is missing. Set it to %s", p.Name, p.Doc)
			}
		case BoolParam:
			if v != "" && v != "true" && v != "false" {
				return nil, status.Errorf(status.BadRequest,
					"parameter %s is %q. Set it to true or false", p.Name, Clip(v))
			}
		case IntegerParam:
			if v == "" {
				continue
			}
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				return nil, status.Errorf(status.BadRequest, "parameter %s is %q. Set it to a number", p.Name, Clip(v))
			}
		}
	}
	return Params(q), nil
}

func listParams(known []Param) string {
	if len(known) == 0 {
		return "This path takes no parameters"
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}
	return "This path takes " + strings.Join(names, ", ")
}

// With returns the parameters with another value of one. It changes q, unless q is nil.
func (q Params) With(name, value string) Params {
	if q == nil {
		q = Params{}
	}
	q[name] = []string{value}
	return q
}

// Text returns the parameter's value, or "" if it is missing.
func (q Params) Text(name string) string { return url.Values(q).Get(name) }

// Flag reports whether the parameter is true.
func (q Params) Flag(name string) bool { return q.Text(name) == "true" }

// Int returns the parameter's value, or missing if there is none.
func (q Params) Int(name string, missing int64) int64 {
	n, err := strconv.ParseInt(q.Text(name), 10, 64)
	if err != nil {
		return missing // ParseParams refused malformed values
	}
	return n
}

// The names of parameters that say what a request acts on.
const (
	KeyParam       = "key"
	LabelParam     = "label"
	RecursiveParam = "recursive"
)

// ParamsOf returns the parameters that a request's type declares, see [api.Param].
func ParamsOf(t reflect.Type) []Param {
	var all []Param
	for _, p := range api.Params(t) {
		kind := AnyTextParam
		switch {
		case p.Required:
			kind = TextParam
		case p.Type.Kind() == reflect.Bool:
			kind = BoolParam
		case p.Type.Kind() == reflect.Int:
			kind = IntegerParam
		}
		all = append(all, Param{Name: p.Name, Kind: kind, Doc: p.Doc, Of: p.Of})
	}
	return all
}

// Decode sets the fields of req, a pointer to a request, to the parameters that its type declares. It returns
// bad_request for one beyond its bounds.
func (q Params) Decode(req any) error {
	v := reflect.ValueOf(req).Elem()
	for _, p := range api.Params(v.Type()) {
		text := q.Text(p.Name)
		if text == "" {
			continue
		}
		switch f := p.Field(v); {
		case f.Kind() == reflect.Bool:
			f.SetBool(text == "true")
		case f.Kind() == reflect.Int:
			n := q.Int(p.Name, 0)
			if most, err := strconv.ParseInt(p.Most, 10, 64); err == nil && (n < 1 || n > most) {
				return status.Errorf(status.BadRequest, "parameter %s is %d. Set it to %s", p.Name, n, p.Set)
			}
			f.SetInt(min(max(n, -1), maxInteger))
		case f.Type() == reflect.TypeFor[time.Duration]():
			d, err := time.ParseDuration(text)
			most, unbounded := time.ParseDuration(p.Most)
			if err != nil || d <= 0 || unbounded == nil && d > most {
				return status.Errorf(status.BadRequest, "parameter %s is %q. Set it to %s", p.Name, Clip(text), p.Set)
			}
			f.SetInt(int64(d))
		default:
			if most, err := strconv.Atoi(p.Most); err == nil && len(text) > most {
				return status.Errorf(
					status.BadRequest, "parameter %s has %d bytes. Set it to %s", p.Name, len(text), p.Set)
			}
			f.SetString(text)
		}
	}
	return nil
}

// maxInteger and -1 are what numbers without a bound become beyond them. Both are out of bounds for those who use them.
const maxInteger = 1 << 20
