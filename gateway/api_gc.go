package gateway

import (
	"context"
	"net/http"

	"allium/gateway/client"
)

// apiGC answers with the objects that go, if they are asked for, and a report.
func (g *Gateway) apiGC(w *response, r *http.Request, q params) error {
	l := &lines{w: w, r: r, flush: batched}
	o := client.GCOptions{All: q.flag("all"), Dry: q.flag("dry"), Fast: q.flag("fast"), List: q.flag("list")}
	return l.end(g.follow(r.Context(), l, func(ctx context.Context, report client.ProgressFunc, item func(any) bool) (any, error) {
		return g.deps.Node.GC(ctx, o, report, func(v client.GCObject) error {
			if !item(v) {
				return context.Cause(ctx)
			}
			return nil
		})
	}))
}
