package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

// apiGC answers with the objects that go, if they are asked for, and a report.
func (g *Handlers) apiGC(w *exchange.Response, r *http.Request, in exchange.Input) error {
	l := &lines{w: w, r: r, flush: batched}
	o := api.GCOptions{All: in.Query.Flag("all"), Dry: in.Query.Flag("dry"), Fast: in.Query.Flag("fast"), List: in.Query.Flag("list")}
	return l.end(g.follow(r.Context(), l, func(ctx context.Context, report api.ProgressFunc, item func(any) bool) (any, error) {
		return g.node.GC(ctx, o, report, func(v api.GCObject) error {
			if !item(v) {
				return context.Cause(ctx)
			}
			return nil
		})
	}))
}
