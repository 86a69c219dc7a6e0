package admin

import (
	"net/http"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

func (g *Handlers) resolveEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Resolve", Path: "resolve", Methods: exchange.Getting,
		Doc:     "Finds the object that a key names and its providers, the best first.",
		Params:  slices.Concat([]exchange.Param{exchange.KeyParam}, exchange.NameParams),
		Answers: exchange.JSONReplies[api.Resolved]("the object and its providers"), Serve: g.apiResolve,
	}
}

// apiResolve finds an object and its providers.
func (g *Handlers) apiResolve(w *exchange.Response, r *http.Request, in exchange.Input) error {
	q, err := in.Query.Lookup()
	if err != nil {
		return err
	}
	found, err := g.node.Resolve(r.Context(), in.Query.Text("key"), q)
	if err != nil {
		return err
	}
	return w.SendJSON(r, http.StatusOK, found)
}

func (g *Handlers) findProvidersEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "FindProviders", Path: "providers", Methods: exchange.Getting,
		Doc: "Finds the other peers that have an object, the best first.",
		Params: slices.Concat([]exchange.Param{exchange.KeyParam}, exchange.QueryParams, []exchange.Param{
			exchange.FlagParam("trace", "ends with a trace of the lookup"),
		}),
		Answers: lineAnswers[api.Provider, struct{}]("the providers"), Serve: g.apiProviders,
	}
}

// apiProviders finds providers and sends each. The trace of the lookup follows, also after an
// error.
func (g *Handlers) apiProviders(w *exchange.Response, r *http.Request, in exchange.Input) error {
	q, err := in.Query.Lookup()
	if err != nil {
		return err
	}
	o := api.FindOptions{Query: q}
	if in.Query.Flag("trace") {
		o.Trace = &api.Trace{}
	}
	l := newLines(w, r, flushEach)
	err = sendItems(l, g.node.FindProviders(r.Context(), in.Query.Text("key"), o))
	if o.Trace != nil && o.Trace.End != "" && w.Failed == nil {
		if sent := l.send(api.Line{Trace: o.Trace}); sent != nil {
			return sent
		}
	}
	return l.end(struct{}{}, err)
}
