package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// apiAdd stores a tar while it arrives, and sends results at the same time. It sends the header
// at once, so that a client that still waits for its own input notices when the node stops.
func (g *Handlers) apiAdd(w *exchange.Response, r *http.Request, in exchange.Input) error {
	o := api.AddOptions{
		NoPin: in.Query.Flag("no_pin"), Label: in.Query.Text("label"), Target: targetOf(in.Query),
		OnBadEntry: api.OnBadEntry(in.Query.Text("on_bad_entry")), Ordered: in.Query.Flag("ordered"),
	}
	if !o.NoPin {
		if err := w.Authorize(r, capability.Request{Op: capability.Pin, Label: o.Label, Bytes: -1}); err != nil {
			return err
		}
	}
	if err := w.FullDuplex(); err != nil {
		return err
	}
	if w.ReadsBody() { // bytes after the end of the tar are no request
		w.Header().Set("Connection", "close")
		defer w.AbandonBody(r)
	}
	l := newLines(w, r, flushEach)
	if l.shape == asLines { // an array begins with an item, so that an earlier error is a problem
		if err := l.begin(); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := g.runWithProgress(r.Context(), l, func(
		ctx context.Context, report api.ProgressFunc, item func(any) bool,
	) (any, error) {
		if r.Header.Get(api.HeaderRoots) == "true" {
			o.Roots = func(roots []b3.Root) { item(roots) } // the context ends an add whose client is gone
		}
		for added, err := range g.node.Add(ctx, w.LimitBody(r.Body), o, report) {
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

// progressed runs work, writes lines of its progress, and returns its result, with the lines that end with it.
func (g *Handlers) progressed(
	w *exchange.Response, r *http.Request, work func(context.Context, api.ProgressFunc) (any, error),
) (got any, l *lines, err error) {
	l = &lines{w: w, r: r, flush: flushEach}
	if prefersJSON(r) {
		l.shape = asValue
	}
	got, err = g.runWithProgress(r.Context(), l,
		func(ctx context.Context, report api.ProgressFunc, _ func(any) bool) (any, error) {
			return work(ctx, report)
		})
	return got, l, err
}
