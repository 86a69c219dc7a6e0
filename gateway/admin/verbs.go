package admin

import (
	"net/http"
	"reflect"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/policy"
	"allium/protocols/status"
)

// apiFails are the outcomes of every verb: almost all, because a node may fail in any way.
var apiFails = slices.DeleteFunc(status.All(), func(o status.Outcome) bool {
	switch o {
	case status.OK, status.Partial, status.NotModified, status.Method, status.BadFrame, status.FrameOversize:
		return true
	}
	return false
})

// verbs answers the verbs of the local API.
type verbs struct {
	node        api.Node
	denylist    policy.Filter
	bodies      *exchange.Bodies
	guard       *exchange.Guard
	idempotency *idempotency
}

// checkDenied wraps a handler. It refuses a request with a parameter that names denied content, and
// leaves malformed keys to the handler.
func (g *verbs) checkDenied(serve exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		for _, name := range [...]string{"key", "from", "to"} {
			if err := exchange.CheckDenied(g.denylist, in.Query.Text(name)); err != nil {
				return err
			}
		}
		return serve(w, r, in)
	}
}

// routes returns the routes of a verb.
func (g *verbs) routes(v *api.Verb) []exchange.Endpoint {
	var all []exchange.Endpoint
	switch {
	case v.JSON:
		all = append(all, g.mutation(v, v.ID, api.PathPrefix+v.Path))
	case v.Path != "":
		all = append(all, g.route(v))
	}
	if v.Admin != "" {
		id := v.ID
		if v.Path != "" {
			id = "Admin" + id
		}
		all = append(all, g.mutation(v, id, "/admin/"+v.Admin))
	}
	return all
}

// route returns the route of a verb whose request is a query.
func (g *verbs) route(v *api.Verb) exchange.Endpoint {
	e := exchange.Endpoint{
		ID: v.ID, Path: v.Path, Methods: []string{v.Method()}, Op: v.Op, Doc: v.Doc,
		Params: exchange.ParamsOf(v.Request), Answers: valueAnswers(v),
	}
	if v.Tree {
		e.Target = exchange.TargetTree
	}
	if v.Item != nil {
		e.Answers = lineAnswers(v.Answer, v.Item, v.Result)
	}
	if _, ok := reflect.New(v.Request).Interface().(readOnly); ok {
		e.ReadOnly = func(q exchange.Params) bool {
			req := reflect.New(v.Request).Interface()
			return q.Decode(req) == nil && req.(readOnly).ReadOnly()
		}
	}
	labelled := e.Has(exchange.LabelParam)
	e.Serve = func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		if labelled {
			setLabel(w, &in)
		}
		node, err := g.asking(w, r, in)
		if err != nil {
			return err
		}
		req := reflect.New(v.Request).Interface()
		if err := in.Query.Decode(req); err != nil {
			return err
		}
		if v.Item != nil {
			return g.sendLines(w, r, v, node, req)
		}
		res, err := v.Value(r.Context(), node, req)
		if err != nil {
			return exchange.CauseOf(r.Context(), err)
		}
		return w.SendJSON(r, http.StatusOK, res)
	}
	if !v.Manages {
		e.Serve = g.checkDenied(e.Serve)
	}
	return verb(e)
}

// readOnly are requests of mutations that may change nothing.
type readOnly interface{ ReadOnly() bool }

// verb completes a route of the local API.
func verb(e exchange.Endpoint) exchange.Endpoint {
	e.Name, e.Path, e.On, e.Fails = "api/"+e.Path, api.PathPrefix+e.Path, exchange.OnAdmin, apiFails
	return e
}

// byHand completes the routes of the verbs that have code of their own.
func (g *verbs) byHand(table ...exchange.Endpoint) []exchange.Endpoint {
	for i, e := range table {
		e.Serve = g.checkDenied(e.Serve)
		table[i] = verb(e)
	}
	return table
}

// valueAnswers returns the answers of a verb with one value.
func valueAnswers(v *api.Verb) []exchange.Reply {
	return []exchange.Reply{{
		Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaJSON, Of: v.Result},
		Headers: []string{"Cache-Control"}, Doc: v.Answer,
	}}
}

// lineAnswers returns the answers of a verb that sends items of one type and a result of another.
func lineAnswers(doc string, item, last reflect.Type) []exchange.Reply {
	value := exchange.Payload{Media: exchange.MediaJSON, Of: item, Array: true}
	if item.NumField() == 0 {
		value = exchange.Payload{Media: exchange.MediaJSON, Of: last}
	}
	headers := []string{"Cache-Control"}
	return []exchange.Reply{
		{
			Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaLines, Of: item, Last: last},
			Headers: headers, Doc: doc,
		},
		{Code: http.StatusOK, Payload: value, Headers: headers, Doc: doc},
	}
}

// linesOf is lineAnswers for types that are known.
func linesOf[Item, Last any](doc string) []exchange.Reply {
	return lineAnswers(doc, reflect.TypeFor[Item](), reflect.TypeFor[Last]())
}

// streamAnswers returns the answers of a verb that sends bytes.
func streamAnswers(media ...string) []exchange.Reply {
	var all []exchange.Reply
	for _, m := range media {
		all = append(all, exchange.Reply{
			Code: http.StatusOK, Payload: exchange.Payload{Media: m},
			Headers: []string{"Cache-Control", "Trailer", api.HeaderObject},
			Doc:     "the bytes, and at their end the trailer " + api.HeaderStatus,
		})
	}
	return all
}

// setLabel sets the parameter label to the label that the pin gets.
func setLabel(w *exchange.Response, in *exchange.Input) {
	in.Query = in.Query.With(exchange.LabelParam, w.Label(in.Query.Text(exchange.LabelParam)))
}
