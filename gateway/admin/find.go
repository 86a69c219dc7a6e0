package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

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
