package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

// maxProviders is the most that a caller may ask for (SPEC §9).
const maxProviders = 32

// apiProviders looks for providers. The trace, which is whole when the lookup
// is over, follows them, also where it ended in an error.
func (g *Handlers) apiProviders(w *exchange.Response, r *http.Request, in exchange.Input) error {
	o := api.FindOptions{Limit: int(max(0, min(in.Query.Int("limit", 0), maxProviders))), Fresh: in.Query.Flag("fresh")}
	if in.Query.Flag("trace") {
		o.Trace = &api.Trace{}
	}
	l := lines{w: w, r: r, flush: live}
	err := sendItems(&l, g.node.FindProviders(r.Context(), in.Query.Text("key"), o))
	if o.Trace != nil && o.Trace.End != "" && w.Failed == nil {
		if sent := l.send(api.Line{Trace: o.Trace}); sent != nil {
			return sent
		}
	}
	return l.end(struct{}{}, err)
}
