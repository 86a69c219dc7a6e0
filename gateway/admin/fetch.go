package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

func (g *Handlers) fetchEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Fetch", Path: "fetch", Methods: exchange.Posting, Op: capability.Fetch, Target: exchange.TargetTree,
		Params:  []exchange.Param{exchange.KeyParam, askParam},
		Doc:     "Fetches an object and everything below it into the store.",
		Answers: lineAnswers[struct{}, api.Fetched]("progress, and what was fetched"), Serve: g.apiFetch,
	}
}

// apiFetch fetches an object into the store.
func (g *Handlers) apiFetch(w *exchange.Response, r *http.Request, in exchange.Input) error {
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	got, l, err := g.progressed(w, r, func(ctx context.Context, report api.ProgressFunc) (any, error) {
		return node.Fetch(ctx, in.Query.Text("key"), report)
	})
	if f, ok := got.(api.Fetched); ok {
		w.LookupID, _ = status.ParseLookupID(f.LookupID)
	}
	return l.end(got, err)
}
