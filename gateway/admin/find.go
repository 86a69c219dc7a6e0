package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

// maxProviders is the highest limit that a caller may set (SPEC §9).
const maxProviders = 32

// apiProviders finds providers and sends each when it is found. The trace of the lookup follows,
// also after an error.
func (g *Handlers) apiProviders(w *exchange.Response, r *http.Request, in exchange.Input) error {
	limit := max(0, min(in.Query.Int("limit", 0), maxProviders))
	o := api.FindOptions{Limit: int(limit), Fresh: in.Query.Flag("fresh")}
	if in.Query.Flag("trace") {
		o.Trace = &api.Trace{}
	}
	l := lines{w: w, r: r, flush: flushEach}
	err := sendItems(&l, g.node.FindProviders(r.Context(), in.Query.Text("key"), o))
	if o.Trace != nil && o.Trace.End != "" && w.Failed == nil {
		if sent := l.send(api.Line{Trace: o.Trace}); sent != nil {
			return sent
		}
	}
	return l.end(struct{}{}, err)
}
