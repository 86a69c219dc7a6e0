package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

func (g *Handlers) gcEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "GC", Path: "gc/run", Methods: exchange.Posting, Op: capability.GC,
		Doc: "Removes objects that neither a pin nor a running operation needs.",
		Params: []exchange.Param{
			exchange.FlagParam("all", "removes all of them, not only down to the low-water mark"),
			exchange.FlagParam("dry", "removes nothing and reports what it would remove"),
			exchange.FlagParam("fast", "runs without pauses"), exchange.FlagParam("list", "lists each removed object"),
		},
		ReadOnly: func(q exchange.Params) bool { return q.Flag("dry") },
		Answers:  lineAnswers[api.GCObject, api.GCReport]("the removed objects if list is true, progress, and a report"),
		Serve:    g.apiGC,
	}
}

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

func (g *Handlers) gcWhyEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "GCWhy", Path: "gc/why", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam},
		Doc:     "Explains why the store keeps an object.",
		Answers: exchange.JSONReplies[api.GCWhy]("what keeps it"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.GCWhy, error) {
			return n.GCWhy(ctx, q.Text("key"))
		}),
	}
}

func (g *Handlers) adminGCEndpoint() exchange.Endpoint {
	return mutation(g, "AdminGC", "gc", capability.GC, "Removes objects that neither a pin nor a running operation needs.",
		"what was removed", noSubject,
		func(ctx context.Context, n api.Node, r api.GCRequest) (api.GCReport, error) {
			o := api.GCOptions{All: r.All, Dry: r.Dry, Fast: r.Fast}
			return n.GC(ctx, o, func(api.Progress) {}, func(api.GCObject) error { return nil })
		})
}
