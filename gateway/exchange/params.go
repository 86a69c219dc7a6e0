package exchange

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"allium/protocols/status"
)

// Param is a parameter that an endpoint knows.
type Param struct {
	Name string
	Kind paramKind
	Doc  string
	Of   []string // the values it may have; nil: any of its kind
}

type paramKind uint8

// The kinds of parameters.
const (
	AnyTextParam paramKind = iota
	TextParam              // not empty
	BoolParam              // true or false
	IntegerParam           // 64 bits, signed
)

// Params are the parameters of a request, checked.
type Params url.Values

// ParseParams reads a query. A parameter that the endpoint does not know, or that
// comes twice, is refused: a misspelt one must not be ignored.
func ParseParams(query string, known []Param) (Params, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "the query is malformed: %w", err)
	}
	for name, values := range q {
		if !slices.ContainsFunc(known, func(p Param) bool { return p.Name == name }) {
			return nil, status.Errorf(status.BadRequest, "parameter %q is not known here; %s", Clip(name), listParams(known))
		}
		if len(values) > 1 {
			return nil, status.Errorf(status.BadRequest, "parameter %s comes %d times", name, len(values))
		}
	}
	for _, p := range known {
		v := q.Get(p.Name)
		if v != "" && p.Of != nil && !slices.Contains(p.Of, v) {
			return nil, status.Errorf(status.BadRequest, "parameter %s is %q, want one of %s", p.Name, Clip(v), strings.Join(p.Of, ", "))
		}
		switch p.Kind {
		case TextParam:
			if v == "" {
				return nil, status.Errorf(status.BadRequest, "parameter %s is missing", p.Name)
			}
		case BoolParam:
			if v != "" && v != "true" && v != "false" {
				return nil, status.Errorf(status.BadRequest, "parameter %s is %q, want true or false", p.Name, Clip(v))
			}
		case IntegerParam:
			if _, err := strconv.ParseInt(v, 10, 64); v != "" && err != nil {
				return nil, status.Errorf(status.BadRequest, "parameter %s is %q, want a number", p.Name, Clip(v))
			}
		}
	}
	return Params(q), nil
}

func listParams(known []Param) string {
	if len(known) == 0 {
		return "there are none"
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}
	return "known are " + strings.Join(names, ", ")
}

// Text returns the parameter as it is, empty where it is missing.
func (q Params) Text(name string) string { return url.Values(q).Get(name) }

// Flag reports whether the parameter is true.
func (q Params) Flag(name string) bool { return q.Text(name) == "true" }

// Int is the parameter's value, or missing where there is none.
func (q Params) Int(name string, missing int64) int64 {
	n, err := strconv.ParseInt(q.Text(name), 10, 64)
	if err != nil {
		return missing // parseParams refused everything else
	}
	return n
}

// The parameters that several verbs have.
var (
	KeyParam   = Param{Name: "key", Kind: TextParam, Doc: "b3:… with or without a path below it"}
	LabelParam = Param{Name: "label", Doc: "of the pin; none is the one that the capability is bound to, if it is"}
	PeerParam  = Param{Name: "peer", Kind: TextParam, Doc: "a peer's id"}

	RecursiveParam = FlagParam("recursive", "and what it leads to")
)

// FlagParam is one that is true or false, false where it is missing.
func FlagParam(name, doc string) Param { return Param{Name: name, Kind: BoolParam, Doc: doc} }
