package api

import (
	"cmp"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Param is a query parameter: a field of a request with the tag query, which has its name and, if it must not be empty,
// ",required". Fields without that tag are no parameters, but the fields of a struct in the request are.
type Param struct {
	Name     string
	Doc      string // the tag doc, or the words in docs
	Required bool
	Of       []string     // the tag of: the permitted values; nil: any of its type
	Most     string       // the tag most: highest number, longest time or most bytes of a text; empty: no bound
	Set      string       // the tag set: the words of an error about a value that is malformed or beyond Most
	Type     reflect.Type // string or a type of that kind, bool, int or time.Duration
	index    []int
}

// docs documents the parameters that mean the same in several verbs, and those that need more words than fit in a tag.
var docs = map[string]string{
	"key":            "b3:… with or without a path below it",
	"label":          "the pin's label; if missing, the label that the capability is bound to",
	"recursive":      "acts on the object and everything below it",
	"rf":             "nodes that shall hold the object, this one included; 0: the pin asks for none any more",
	"ec":             "data and parity shards of the object, each on another node, such as 6+3; not with rf",
	"for":            "how long the ticket works, such as 24h; if missing, it does not say",
	"limit":          "the most providers in the answer, 1 to 32; if missing, 5",
	"region":         "only providers that say they are in this region, a label of up to 32 bytes",
	"whyRequest.key": "the ID of a lookup, or an address: then its latest lookup that was not answered at once",
	"name":           "LABEL.ZONE, where ZONE is a key or a short name; or LABEL in the only own zone",
	"ask": "peers to ask first: IDs, or multiaddrs with /p2p/ID, separated by commas; over TCP this needs a " +
		"capability that allows connect",
	"min_freshness": "only providers whose record was signed at most so long ago, for example `30m` or `12h`",
	"max_stale": "of a name: also takes a record that ended at most so long ago, for example `1h`, and looks the " +
		"name up behind the answer; at most `720h`, and not together with fresh",
	"on_bad_entry": "what to do with an entry that no directory can hold, or that get would refuse: refuse (the " +
		"default) adds nothing, skip leaves the entry out and lists it",
	"ordered": "the entries are in the order of a directory and none comes twice; they are added while they arrive, " +
		"and a bad one is refused at once",
}

var paramsOfTypes sync.Map // from reflect.Type to []Param

// Params returns the parameters of a request's type.
func Params(t reflect.Type) []Param {
	if known, ok := paramsOfTypes.Load(t); ok {
		return known.([]Param)
	}
	var all []Param
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("query")
		if !ok {
			if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
				for _, p := range Params(f.Type.Elem()) {
					p.index = append(f.Index[:len(f.Index):len(f.Index)], p.index...)
					all = append(all, p)
				}
			}
			continue
		}
		p := Param{Most: f.Tag.Get("most"), Set: f.Tag.Get("set"), Type: f.Type, index: f.Index}
		p.Name, _, p.Required = strings.Cut(tag, ",")
		p.Doc = cmp.Or(f.Tag.Get("doc"), docs[t.Name()+"."+p.Name], docs[p.Name])
		if of := f.Tag.Get("of"); of != "" {
			p.Of = strings.Split(of, ",")
		}
		all = append(all, p)
	}
	paramsOfTypes.Store(t, all)
	return all
}

// Field returns the field of p in req, a request. It makes the struct that a pointer on the way there lacks.
func (p *Param) Field(req reflect.Value) reflect.Value {
	for _, i := range p.index {
		if req.Kind() == reflect.Pointer {
			if req.IsNil() {
				req.Set(reflect.New(req.Type().Elem()))
			}
			req = req.Elem()
		}
		req = req.Field(i)
	}
	return req
}

// EncodeQuery returns the parameters of req, a request. It leaves out those that are zero, but the first of a struct
// behind a pointer if all of that are.
func EncodeQuery(req any) url.Values {
	q, v := url.Values{}, reflect.ValueOf(req)
	for _, p := range Params(v.Type()) {
		f, err := v.FieldByIndexErr(p.index)
		if err != nil { // behind a nil pointer
			continue
		}
		if outer, _ := v.FieldByIndexErr(p.index[:len(p.index)-1]); f.IsZero() &&
			(outer.Kind() != reflect.Pointer || p.index[len(p.index)-1] != 0 || !outer.Elem().IsZero()) {
			continue
		}
		switch x := f.Interface().(type) {
		case bool:
			q.Set(p.Name, strconv.FormatBool(x))
		case int:
			q.Set(p.Name, strconv.Itoa(x))
		case time.Duration:
			q.Set(p.Name, x.String())
		default:
			q.Set(p.Name, f.String())
		}
	}
	return q
}
