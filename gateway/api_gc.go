package gateway

import (
	"context"
	"net/http"

	"allium/gateway/client"
)

// apiGC answers with the objects that go, if they are asked for, and a report.
func (g *Gateway) apiGC(w *response, r *http.Request, in input) error {
	l := &lines{w: w, r: r, flush: batched}
	o := client.GCOptions{All: in.q.flag("all"), Dry: in.q.flag("dry"), Fast: in.q.flag("fast"), List: in.q.flag("list")}
	return l.end(g.follow(r.Context(), l, func(ctx context.Context, report client.ProgressFunc, item func(any) bool) (any, error) {
		return g.deps.Node.GC(ctx, o, report, func(v client.GCObject) error {
			if !item(v) {
				return context.Cause(ctx)
			}
			return nil
		})
	}))
}
