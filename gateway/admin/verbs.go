package admin

import (
	"context"
	"net/http"
	"reflect"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// apiPath is the path of the local API's verbs.
const apiPath = "/api/v1/"

// apiFails are the outcomes of every verb: almost all, because a node may fail in any way.
var apiFails = slices.DeleteFunc(status.All(), func(o status.Outcome) bool {
	switch o {
	case status.OK, status.Partial, status.NotModified, status.Method, status.BadFrame, status.FrameOversize:
		return true
	}
	return false
})

// allowedOnDenied are the verbs that manage local content, denied content too.
var allowedOnDenied = []string{"Stat", "Verify", "Unpin", "GCWhy", "Why"}

// checkDenied wraps a handler. It refuses a request with a parameter that names denied content, and
// leaves malformed keys to the handler.
func (g *Handlers) checkDenied(serve exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		for _, name := range [...]string{"key", "from", "to"} {
			if err := exchange.CheckDenied(g.denylist, in.Query.Text(name)); err != nil {
				return err
			}
		}
		return serve(w, r, in)
	}
}

// verbs completes the routes of the local API.
func (g *Handlers) verbs(table ...exchange.Endpoint) []exchange.Endpoint {
	for i := range table {
		e := &table[i]
		e.Name, e.Path, e.On, e.Fails = "api/"+e.Path, apiPath+e.Path, exchange.OnAdmin, apiFails
		if !slices.Contains(allowedOnDenied, e.ID) {
			e.Serve = g.checkDenied(e.Serve)
		}
	}
	return table
}

// lineAnswers returns the answers of a verb that sends items.
func lineAnswers[Item, Last any](doc string) []exchange.Reply {
	value := exchange.ArrayBody[Item]()
	if reflect.TypeFor[Item]().NumField() == 0 {
		value = exchange.JSONBody[Last]()
	}
	headers := []string{"Cache-Control"}
	return []exchange.Reply{
		{Code: http.StatusOK, Payload: exchange.LinesBody[Item, Last](), Headers: headers, Doc: doc},
		{Code: http.StatusOK, Payload: value, Headers: headers, Doc: doc},
	}
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

// withLabel wraps a handler. It sets the parameter label to the label that the pin gets.
func withLabel(serve exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		in.Query = in.Query.With(exchange.LabelParam.Name, w.Label(in.Query.Text(exchange.LabelParam.Name)))
		return serve(w, r, in)
	}
}

// serveValue returns the handler of a verb that answers with one JSON value.
func serveValue[T any](g *Handlers, call func(context.Context, api.Node, exchange.Params) (T, error)) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		v, err := call(r.Context(), g.node, in.Query)
		if err != nil {
			return exchange.CauseOf(r.Context(), err)
		}
		return w.SendJSON(r, http.StatusOK, v)
	}
}

// serveAction returns the handler of a verb that answers with {}.
func serveAction(g *Handlers, call func(context.Context, api.Node, exchange.Params) error) exchange.Handler {
	return serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (struct{}, error) {
		return struct{}{}, call(ctx, n, q)
	})
}
