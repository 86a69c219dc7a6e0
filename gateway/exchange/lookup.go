package exchange

import (
	"reflect"
	"slices"

	"allium/gateway/api"
)

// NameParams returns the parameters of an endpoint that finds what a name stands for.
func NameParams() []Param { return ParamsOf(reflect.TypeFor[api.Query]()) }

// QueryParams returns the parameters of an endpoint that finds providers.
func QueryParams() []Param {
	return slices.DeleteFunc(NameParams(), func(p Param) bool { return p.Name == "max_stale" })
}

// Lookup returns the query that the parameters QueryParams or NameParams make, or bad_request.
func (q Params) Lookup() (asked api.Query, err error) {
	if err = q.Decode(&asked); err == nil {
		err = asked.Check()
	}
	return asked, err
}
