package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

// apiAdd stores a tar while it arrives and answers beside it. The header goes
// out at once: a client that has it hears at once when the node goes away, also
// while it waits for its own input.
func (g *Handlers) apiAdd(w *exchange.Response, r *http.Request, in exchange.Input) error {
	o := api.AddOptions{
		NoPin: in.Query.Flag("no_pin"), Label: in.Query.Text("label"),
		OnBadEntry: api.OnBadEntry(in.Query.Text("on_bad_entry")), Ordered: in.Query.Flag("ordered"),
	}
	if !o.NoPin {
		if err := w.Allows(r, capability.Ask{Op: capability.Pin, Label: o.Label, Bytes: -1}); err != nil {
			return err
		}
	}
	if err := w.FullDuplex(); err != nil {
		return err
	}
	if w.ReadsBody() { // what may follow a tar is no request, and is not waited for
		w.Header().Set("Connection", "close")
		defer w.LeaveBody(r)
	}
	l := &lines{w: w, r: r, flush: live}
	if err := l.begin(); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := g.follow(r.Context(), l, func(ctx context.Context, report api.ProgressFunc, item func(any) bool) (any, error) {
		for added, err := range g.node.Add(ctx, w.Within(r.Body), o, report) {
			if err != nil {
				return nil, err
			}
			if !item(added) {
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	})
	if end := l.end(struct{}{}, err); end != nil || err == nil {
		return end
	}
	w.Discard(r)
	return nil
}

// apiFetch brings an object into the store.
func (g *Handlers) apiFetch(w *exchange.Response, r *http.Request, in exchange.Input) error {
	l := &lines{w: w, r: r, flush: live}
	return l.end(g.follow(r.Context(), l, func(ctx context.Context, report api.ProgressFunc, _ func(any) bool) (any, error) {
		return g.node.Fetch(ctx, in.Query.Text("key"), report)
	}))
}
