package gateway

import (
	"net/http"

	"allium/gateway/client"
)

// maxProviders is the most that a caller may ask for (SPEC §9).
const maxProviders = 32

// apiProviders looks for providers. The trace, which is whole when the lookup
// is over, follows them, also where it ended in an error.
func (g *Gateway) apiProviders(w *response, r *http.Request, in input) error {
	o := client.FindOptions{Limit: int(max(0, min(in.q.integer("limit", 0), maxProviders))), Fresh: in.q.flag("fresh")}
	if in.q.flag("trace") {
		o.Trace = &client.Trace{}
	}
	l := lines{w: w, r: r, flush: live}
	err := sendItems(&l, g.deps.Node.FindProviders(r.Context(), in.q.text("key"), o))
	if o.Trace != nil && o.Trace.End != "" && w.failed == nil {
		if sent := l.send(client.Line{Trace: o.Trace}); sent != nil {
			return sent
		}
	}
	return l.end(struct{}{}, err)
}
