package admin

import (
	"net/http"
	"reflect"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

func (g *Handlers) findProvidersEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "FindProviders", Path: "providers", Methods: exchange.Getting,
		Doc: "Finds the other peers that have an object, the best first.",
		Params: slices.DeleteFunc(exchange.ParamsOf(reflect.TypeFor[api.FindRequest]()), func(p exchange.Param) bool {
			return p.Name == "max_stale"
		}),
		Answers: linesOf[api.Provider, struct{}]("the providers"), Serve: g.apiProviders,
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
