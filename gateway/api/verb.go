package api

import (
	"context"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"allium/protocols/capability"
)

// Spec documents a verb, and says where the gateway serves it.
type Spec struct {
	ID   string // the name of its method in Node
	Path string // below /api/v1/; empty: it is served at Admin alone
	// Admin is a path below /admin/, where the request is JSON and may have an Idempotency-Key; empty: none.
	Admin   string
	JSON    bool          // the request at Path is as at Admin
	Op      capability.Op // the operation that the client needs a capability for; empty: it changes nothing
	Tree    bool          // Op acts on the object and everything below it
	Manages bool          // it manages local content, denied content too
	Slow    bool          // each line of the answer takes time to find, and is sent at once
	Doc     string        // one sentence
	Answer  string        // describes the answer
}

// Method returns the HTTP method of a request at Path.
func (s *Spec) Method() string {
	if s.Op == "" {
		return http.MethodGet
	}
	return http.MethodPost
}

// Verb is a verb of the local API without its types. The gateway serves and documents it.
type Verb struct {
	Spec
	Request, Result reflect.Type
	Item            reflect.Type // of an answer in lines; an empty struct: it has no items

	// One of these answers. req is a pointer to a Request.
	Value func(ctx context.Context, n Node, req any) (any, error)
	Items func(ctx context.Context, n Node, req any) iter.Seq2[any, error]
	Run   func(ctx context.Context, n Node, req any, progress ProgressFunc, item func(any) error) (any, error)
}

// Verbs returns the verbs that need no code of their own in the gateway and in the client.
func Verbs() []*Verb {
	return slices.Concat(readerVerbs, storeVerbs, finderVerbs, clusterVerbs, nameVerbs, peerVerbs, packVerbs,
		controlVerbs, healthVerbs, overviewVerbs)
}

// valueVerb is a verb with one value as its answer.
type valueVerb[Req, Res any] struct{ *Verb }

// value returns the verb that call answers. A list that is nil in the answer becomes [].
func value[Req, Res any](s Spec, call func(Node, context.Context, Req) (Res, error)) valueVerb[Req, Res] {
	return valueVerb[Req, Res]{&Verb{
		Spec: s, Request: reflect.TypeFor[Req](), Result: reflect.TypeFor[Res](),
		Value: func(ctx context.Context, n Node, req any) (any, error) {
			res, err := call(n, ctx, *req.(*Req))
			fillLists(reflect.ValueOf(&res).Elem())
			return res, err
		},
	}}
}

// linesVerb is a verb with lines as its answer: items, progress, and a result.
type linesVerb[Req, Item, Res any] struct{ *Verb }

// items returns the verb whose items call yields.
func items[Req, Item any](
	s Spec, call func(Node, context.Context, Req) iter.Seq2[Item, error],
) linesVerb[Req, Item, none] {
	return linesVerb[Req, Item, none]{&Verb{
		Spec: s, Request: reflect.TypeFor[Req](), Item: reflect.TypeFor[Item](), Result: reflect.TypeFor[none](),
		Items: func(ctx context.Context, n Node, req any) iter.Seq2[any, error] {
			return func(yield func(any, error) bool) {
				for v, err := range call(n, ctx, *req.(*Req)) {
					if !yield(v, err) {
						return
					}
				}
			}
		},
	}}
}

// run returns the verb that call answers with a result, after progress and items.
func run[Req, Item, Res any](
	s Spec, call func(Node, context.Context, Req, ProgressFunc, func(Item) error) (Res, error),
) linesVerb[Req, Item, Res] {
	return linesVerb[Req, Item, Res]{&Verb{
		Spec: s, Request: reflect.TypeFor[Req](), Item: reflect.TypeFor[Item](), Result: reflect.TypeFor[Res](),
		Run: func(ctx context.Context, n Node, req any, progress ProgressFunc, item func(any) error) (any, error) {
			return call(n, ctx, *req.(*Req), progress, func(v Item) error { return item(v) })
		},
	}}
}

// fillLists replaces nil by an empty list, which is [] in JSON and not null: v, or its members that JSON always has.
func fillLists(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice && v.IsNil():
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case v.Kind() == reflect.Struct:
		for f, member := range v.Fields() {
			if f.Type.Kind() == reflect.Slice && !strings.Contains(f.Tag.Get("json"), ",omit") {
				fillLists(member)
			}
		}
	}
}

// none is the request of a verb without parameters, or the answer of one that says nothing.
type none = struct{}

// keyRequest is the request of a verb about one key.
type keyRequest struct {
	Key string `query:"key,required"`
}

// AskedRequest is the request of a verb about one key, for which the node asks some peers before others.
type AskedRequest struct {
	Key string `query:"key,required"`
	Ask string `query:"ask"`
}

// plain returns the answer of a verb without parameters.
func plain[Res any](call func(Node, context.Context) (Res, error)) func(Node, context.Context, none) (Res, error) {
	return func(n Node, ctx context.Context, _ none) (Res, error) { return call(n, ctx) }
}

// plainItems returns the items of a verb without parameters.
func plainItems[Item any](
	call func(Node, context.Context) iter.Seq2[Item, error],
) func(Node, context.Context, none) iter.Seq2[Item, error] {
	return func(n Node, ctx context.Context, _ none) iter.Seq2[Item, error] { return call(n, ctx) }
}

// action returns the answer of a verb without parameters and result.
func action(call func(Node, context.Context) error) func(Node, context.Context, none) (none, error) {
	return func(n Node, ctx context.Context, _ none) (none, error) { return none{}, call(n, ctx) }
}

// byKey returns the answer of a verb about one key.
func byKey[Res any](
	call func(Node, context.Context, string) (Res, error),
) func(Node, context.Context, keyRequest) (Res, error) {
	return func(n Node, ctx context.Context, r keyRequest) (Res, error) { return call(n, ctx, r.Key) }
}

// Subject names what a mutation acts on.
type Subject struct {
	Key   string
	Name  *string // the name in the request, which the mutation gets with the key of its zone; nil: none
	Label *string // the pin's label in the request; nil: the mutation concerns no pin
}
