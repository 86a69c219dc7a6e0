package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

// apiGC runs a garbage collection. It sends the removed objects, if the client asks for them, and
// a report. The report is not part of a JSON array; POST /admin/gc returns it.
func (g *Handlers) apiGC(w *exchange.Response, r *http.Request, in exchange.Input) error {
	l := newLines(w, r, flushBuffered)
	o := api.GCOptions{
		All: in.Query.Flag("all"), Dry: in.Query.Flag("dry"), Fast: in.Query.Flag("fast"), List: in.Query.Flag("list"),
	}
	work := func(ctx context.Context, report api.ProgressFunc, item func(any) bool) (any, error) {
		return g.node.GC(ctx, o, report, func(v api.GCObject) error {
			if !item(v) {
				return context.Cause(ctx)
			}
			return nil
		})
	}
	return l.end(g.runWithProgress(r.Context(), l, work))
}
